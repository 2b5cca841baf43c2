"""What stands in the first table of README.md, one after another; each writes under results/."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from functools import partial

from runtime_ext.fresh_process import end_with_parent
from runtime_ext.machine.this_machine import available_lanes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=available_lanes())
    lanes = ["--lanes", str(parser.parse_args().lanes)]
    for name, options in (
        ("searching.search", []),
        ("units.executor", lanes),
        ("units.open_shapes", []),
        ("networks.side_by_side", lanes),
        ("networks.optimize", lanes),
        ("memory.arena", lanes),
        ("networks.vdevice", lanes),
        ("networks.fine_grained_waits", lanes),
        ("predicted.graphturbo_model", lanes),
        ("networks.graphturbo_cpu", lanes),
        ("serving.deployment", []),
        ("memory.schedulers", []),
        ("searching.networks", []),
    ):
        print(f"== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", *options]
        subprocess.run(command, check=True, preexec_fn=partial(end_with_parent, os.getpid()))


if __name__ == "__main__":
    main()
