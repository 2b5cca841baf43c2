"""``python -m tests.stress``: the native executor beside other busy processes.

Random programs with many waits and dawdling kernels, and SqueezeNet, against the reference
executor: every run, bit for bit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from rich.progress import track

from benchmarks.busy_processes import busy_processes

from .runner import RUNS_EACH, Difference, load_kernels, run_network, run_programs


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="of random programs")
    parser.add_argument("--network", default="squeezenet", help="a zoo network")
    parser.add_argument("--network-runs", type=int, default=100)
    parser.add_argument("--busy", type=int, default=2, help="other processes")
    parser.add_argument("--seed", type=int, default=0, help="number of the first program")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder, busy_processes(options.busy):
            kernels = load_kernels(Path(folder))
            bar = iter(track(range(-(-options.runs // RUNS_EACH)), "programs"))
            waits = run_programs(kernels, options.runs, options.seed, lambda: next(bar, None))
            if options.network_runs:
                run_network(options.network, options.network_runs)
    except Difference as difference:
        print(difference)
        return 1
    print(
        f"{options.runs} runs of random programs ({waits} waits) and {options.network_runs} of "
        f"{options.network} beside {options.busy} busy processes: equal to the reference"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
