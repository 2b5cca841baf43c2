"""Every CPU benchmark, one after another; each writes a file under results/."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = ("search.py", "side_by_side.py", "optimize.py")


def main() -> None:
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        subprocess.run([sys.executable, str(Path(__file__).parent / name)], check=True)


if __name__ == "__main__":
    main()
