"""The GPU suite: prepared here, where TVM is, and measured on a machine with a GPU.

Here::

    python -m benchmarks.gpus.gpu --prepare suite/       # all that has to be copied there

On the GPU machine, which needs Python 3.12, NumPy, cuda-bindings, pytest and, for the peers, torch
(and onnxscript and an ONNX Runtime for GPUs, or that peer is skipped)::

    python suite/gpu.py                                  # all slices, one after another
    python suite/gpu.py --only squeezenet,1              # one of them, within 8 minutes
    python suite/gpu.py --minutes 9                      # as far as this time goes

Checks come first: if one fails, it ends there. A slice may be killed and run again: what was
measured is kept. ``suite/results/`` has all of it, in ``gpu.json`` what has been measured and what
was skipped and why; copied into the same place on another machine, it is gone on with there.
Where a policy's kernels fail, ``--again --policies sequential,greedy,ios-both`` leaves it out.
``NAME-cpu`` are slices on all CPU cores; ``NAME-crossed`` run what was found for other batches.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from benchmarks.gpus.suite.slices import POLICIES, chosen_slices


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--prepare", type=Path, metavar="DIR", help="make what is copied there")
    parser.add_argument("--only", metavar="NET[,BATCH]", help="one network, or one slice")
    parser.add_argument("--arch", default="sm_90", help="of the GPU, with --prepare  [sm_90]")
    parser.add_argument("--cpu-arch", default="x86-64-v4", help="of the CPU  [x86-64-v4]")
    parser.add_argument("--python", default="3.12", help="the version there  [3.12]")
    parser.add_argument("--jobs", type=int, default=1, help="bundles prepared at once  [1]")
    parser.add_argument("--minutes", type=float, default=math.inf, help="of all slices, at most")
    parser.add_argument(
        "--slice-minutes", type=float, default=8.0, help="of one slice, at most  [8]"
    )
    parser.add_argument("-o", "--output", type=Path, help="where results go  [results/ in here]")
    parser.add_argument("--again", action="store_true", help="also what has a result or failed")
    parser.add_argument("--keep-going", action="store_true", help="also if the checks fail")
    parser.add_argument("--policies", default=POLICIES, help=f"to search  [{POLICIES}]")
    wanted = parser.parse_args()
    begin = time.monotonic()
    slices = chosen_slices(wanted.only)
    if wanted.prepare is not None:
        from benchmarks.gpus.suite.prepare import prepare_suite

        prepare_suite(
            wanted.prepare.resolve(),
            slices,
            arch=wanted.arch,
            cpu_arch=wanted.cpu_arch,
            python=wanted.python,
            jobs=wanted.jobs,
        )
        return
    from benchmarks.gpus.suite.measure import measure_slices
    from benchmarks.gpus.suite.table import print_record

    suite = Path(__file__).resolve().parent
    record = measure_slices(
        suite,
        slices,
        (wanted.output or suite / "results").resolve(),
        seconds=60 * wanted.slice_minutes,
        end=begin + 60 * wanted.minutes,
        again=wanted.again,
        keep_going=wanted.keep_going,
        policies=wanted.policies,
    )
    print_record(record)


if __name__ == "__main__":
    main()
