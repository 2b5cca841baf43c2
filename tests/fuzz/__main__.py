"""``python -m tests.fuzz``: see the package."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from rich.progress import track

from .models import write_sound_files
from .runner import run_case, run_cases
from .targets import EVERY_TARGET


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--target", choices=list(EVERY_TARGET), action="append")
    parser.add_argument("--only", metavar="TARGET:NUMBER", help="one case, in this process")
    parser.add_argument("--refused", action="store_true", help="print the refusals, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sound = Path(folder)
        target, _, number = (options.only or "").partition(":")
        targets = [target] if target else options.target or list(EVERY_TARGET)
        if targets != ["network"]:
            # The TVM that has Relay cannot make them.
            write_sound_files(sound)
        if target:
            print(*run_case(target, int(number), sound))
            return 0
        cases = [(targets[i % len(targets)], options.seed + i) for i in range(options.cases)]
        bar = iter(track(range(len(cases)), "cases"))
        report = run_cases(cases, sound, done=lambda: next(bar, None))
    for (target, outcome), count in sorted(report.counts.items()):
        print(f"{target:12}{outcome:12}{count:6}")
    print(*(report.refusals if options.refused else ()), *report.failures, sep="\n")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(_main())
