"""Makes ``docs/networks.md`` of results and of published counts; ``--check`` only compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tvm_ios.zoo.published import PUBLISHED, PublishedCount

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "networks.md"
RESULT = ROOT / "benchmarks" / "results" / "optimize.json"
SEARCHES = ROOT / "benchmarks" / "results" / "networks.json"

_HEADER = """# The networks

Every network of the zoo and every real topology inside the `onnx` wheel (`light_*`), optimised by
`tvm-ios optimize` with random weights and checked (`python -m benchmarks.networks.optimize`
measures, `python docs/make/networks.py` writes this page). Measured on {processor}, {lanes} lanes,
{date}.

*Kept* is the policy whose program was fastest, with its ratio to the sequential program in pairs of
runs (the upper end of the 95 % interval in brackets); where it is sequential, no schedule was
surely faster. *Errors* are relative to the largest output: of the program against TVM's own build
of the same module, and of the saved executable against ONNX Runtime on the original file (logits,
where the network ends in a softmax).

| network | operators | units | kept | to sequential | error to TVM | error to ONNX Runtime |
|---|---|---|---|---|---|---|
"""

_PUBLISHED = """
## As published

What publications and their authors' code count, from `tvm_ios/zoo/published.py`;
`tests/zoo/test_published_counts.py` counts it again. *Exactly* is so; otherwise the number was
rounded, or the last column says why it differs.

| network | counted | published | within | source | why |
|---|---|---|---|---|---|
"""

_SEARCHES = """
## Searches

Seconds of a core that `tvm-ios stats` and `tvm-ios schedule --cost v100 --engine ios` take from the
start of the process on, and what the schedule saves on the described V100
(`python -m benchmarks.searching.networks`).

| network | units | blocks | policy | stats s | schedule s | sequential ms | scheduled ms |
|---|---|---|---|---|---|---|---|
"""


def page() -> str:
    """The page, made of the result file."""
    result = json.loads(RESULT.read_text())
    machine = result["machine"]
    header = _HEADER.format(
        processor=machine["processor"], lanes=machine["lanes"], date=machine["date"]
    )
    rows = sorted(result["figures"], key=lambda row: (row["model"].startswith("light_"),))
    table = header + "".join(map(_row, rows))
    return table + _PUBLISHED + "".join(map(_published_row, PUBLISHED)) + _searches()


def _published_row(row: PublishedCount) -> str:
    within = f"{row.within:.1%}" if row.within else "exactly"
    cells = (f"`{row.network}`", row.quantity, f"{row.value:,}", within, row.source, row.note)
    return f"| {' | '.join(cells)} |\n"


def _searches() -> str:
    if not SEARCHES.exists():
        return ""
    rows = json.loads(SEARCHES.read_text())["figures"]
    return _SEARCHES + "".join(
        f"| `{row['model']}` | {row['units']:,} | {row['blocks']} | {row['policy']} "
        f"| {row['stats_seconds']:.0f} | {row['schedule_seconds']:.0f} "
        f"| {row['sequential_ms']:.3f} | {row['latency_ms']:.3f} |\n"
        for row in rows
    )


def _row(row: dict[str, Any]) -> str:
    ratio = row["confirmed"]["sequential"]
    kept = row["kept"]
    compared = "" if kept == "sequential" else f"{ratio['ratio']:.3f} ({ratio['high']:.3f})"
    error = max(policy["max_rel_error"] for policy in row["policies"])
    cells = (
        f"`{row['model']}`",
        row["search"]["operators"],
        row["search"]["units"],
        kept,
        compared,
        f"{error:.1e}",
        f"{row['output_error']:.1e}",
    )
    return f"| {' | '.join(map(str, cells))} |\n"


def main() -> None:
    """Write the page, or compare it."""
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            sys.exit("docs/networks.md is not what the result file says: make it anew")
        return
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
