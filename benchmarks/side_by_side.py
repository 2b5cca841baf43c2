"""Where we stand: ten networks beside ONNX Runtime and torch, as ``tvm-ios bench`` measures it.

Networks that the results have already are not measured again, so it can be stopped and started at
will. Options of ``tvm-ios bench`` are passed on, for instance ``--lanes 16``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from report import RESULTS, light_model

ZOO = ("squeezenet", "inception_v3", "nasnet_a", "randwire")
LIGHT = ("squeezenet", "inception_v1", "inception_v2", "resnet50", "densenet121", "shufflenet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=[*ZOO, *map(light_model, LIGHT)])
    parser.add_argument("--against", default="onnxruntime,torch")
    parser.add_argument("--output", default=str(RESULTS / "bench.json"))
    given, options = parser.parse_known_args()
    command = [sys.executable, "-m", "tvm_ios", "bench", *given.networks, *options]
    command += ["--against", given.against, "--random-weights", "0"]
    command += ["--output", given.output, "--resume"]
    sys.exit(subprocess.run(command).returncode)


if __name__ == "__main__":
    main()
