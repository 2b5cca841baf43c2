"""Makes ``docs/unit_kernels.md`` of ``results/tvm_units.json``; ``--check`` only compares."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "unit_kernels.md"
RESULT = ROOT / "benchmarks" / "results" / "tvm_units.json"

_HEADER = """# Units beside TVM's own kernels

Would TVM's kernel of a unit be faster than ours? `python -m benchmarks.units.tvm_units` runs every
distinct unit of a network as in our program, and as a module of its own that TVM's default pipeline
builds, on one lane, in turn (`python docs/make/unit_kernels.py` writes this page). Measured on
{processor}, {date}, beside other work: only ratios of pairs count.

*TVM wins* counts the units for which the median ratio is below 0.95 and its 95 % interval below 1;
what is saved by less than 0.2 µs does not count. *Gain at most* is what the network would gain if
these ran TVM's kernels, without the copies into the layouts that these want.

| network | units | TVM wins | gain at most |
|---|---|---|---|
"""

_KERNELS = """
The networks from `YOLO` on are small ones that tests draw. Only dynamic quantisation would gain,
whose extrema pass NaN on here, which TVM drops; so units have no such form to choose. Where a unit
has no kernel of ours it runs TVM's code (*generic*), with TVM's loops: as few outer ones as
give enough tiles are run in parallel, the others stay as they are
(`runtime_ext/kernels/default_schedule.py`). Only where long sums go over operands that lie in rows
the row becomes the innermost loop, in vectors. In each element the order of the sum is TVM's.

In Relay units are TVM's own kernels to begin with, which AutoTVM tunes.

## Operators by themselves

Models of one operator each, most of them without a kernel of ours (`operators` above): of {units}
units these are where TVM wins.

| operator | unit | kernels | µs | TVM to ours |
|---|---|---|---|---|
"""

_FOOTER = """
Maxima take longer here because they pass NaN on, which TVM drops
([where TVM differs](tvm_differences.md)).
"""


def page() -> str:
    """The page, made of the result file."""
    result = json.loads(RESULT.read_text())
    machine = result["machine"]
    figures = {row["network"]: row for row in result["figures"]}
    header = _HEADER.format(processor=machine["processor"], date=machine["date"])
    networks = "".join(map(_network, figures.values()))
    operators = figures["operators"]
    kernels = _KERNELS.format(units=operators["units"])
    return header + networks + kernels + "".join(_wins(operators)) + _FOOTER


def _network(row: dict[str, Any]) -> str:
    gain = f"{row['gain_at_most']:.2%}" if row["tvm_wins"] else ""
    return f"| `{row['network']}` | {row['units']} | {row['tvm_wins']} | {gain} |\n"


def _wins(row: dict[str, Any]) -> Iterator[str]:
    for win in sorted(row["wins"], key=lambda win: win["ratio"]["median"]):
        operator, _, unit = win["unit"].rpartition(" ")
        kernels = ", ".join(dict.fromkeys(win["kernels"]))
        ratio = win["ratio"]["median"]
        yield f"| {operator} | `{unit}` | {kernels} | {win['us']:.1f} | {ratio:.2f} |\n"


def main() -> None:
    """Write the page, or compare it."""
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            sys.exit("docs/unit_kernels.md is not what the result file says: make it anew")
        return
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
