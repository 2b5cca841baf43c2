"""``python -m tests.outside``: see the package."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from rich.progress import track

from tests.outside.examined import FAULTS, VERDICTS, examine_all, names
from tests.outside.page import page


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.outside", description=__doc__)
    parser.add_argument("--cases", type=int, default=240)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a kind, or one case as KIND:NUMBER")
    parser.add_argument("--page", type=Path, help="where counts and refusals are written")
    options = parser.parse_args()
    # Libraries count threads when they start.
    os.environ.setdefault("TVM_NUM_THREADS", "1")
    cases = [
        (kind, number)
        for kind, number in names(options.cases)
        if options.only in ("", kind, f"{kind}:{number}")
    ]
    rows = []
    for kind, number, row in track(
        examine_all(cases, options.seed), "cases", total=len(cases), disable=not sys.stderr.isatty()
    ):
        rows.append((kind, number, row))
        if row.verdict in (*FAULTS, "refused"):
            print(f"{row.verdict:8} {kind}:{number}: {row.detail}", flush=True)
    counts = Counter(row.verdict for _, _, row in rows)
    print(", ".join(f"{verdict}: {counts[verdict]}" for verdict in VERDICTS))
    if options.page is not None:
        options.page.write_text(page(rows, options.seed))
    return int(any(counts[verdict] for verdict in FAULTS))


if __name__ == "__main__":
    sys.exit(_main())
