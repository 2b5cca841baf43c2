"""What stands in the first table of README.md, one after another; each writes under results/."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from runtime_ext.machine.this_machine import available_lanes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lanes", type=int, default=available_lanes())
    lanes = ["--lanes", str(parser.parse_args().lanes)]
    for name, options in (
        ("search.py", []),
        ("executor.py", lanes),
        ("side_by_side.py", lanes),
        ("optimize.py", lanes),
        ("arena.py", lanes),
        ("vdevice.py", lanes),
        ("fine_grained_waits.py", lanes),
        ("graphturbo_model.py", lanes),
        ("graphturbo_cpu.py", lanes),
        ("deployment.py", []),
        ("memory.py", []),
        ("networks.py", []),
    ):
        print(f"== {name}", flush=True)
        script = Path(__file__).parent / name
        subprocess.run([sys.executable, str(script), *options], check=True)


if __name__ == "__main__":
    main()
