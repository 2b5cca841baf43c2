"""Makes ``docs/cuda.md`` of what was compiled for GPUs; ``--check`` only compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cuda.md"
TEXT = ROOT / "docs" / "make" / "cuda_text.md"
RESULTS = ROOT / "benchmarks" / "results"

#: What a column says: its heading, and the field of the result.
PERSISTENT = {
    "network": "network",
    "units": "units",
    "kernels": "distinct_kernels",
    "vEUs": "veus",
    "rTasks": "rtasks",
    "steps": "steps",
    "barriers": "barriers",
    "registers": "registers",
    "alone": "registers_alone",
    "local": "local_bytes",
    "shared": "shared_bytes",
    "blocks a multiprocessor": "blocks_per_processor",
    "cubin bytes": "cubin_bytes",
}
KERNELS = {
    "network": "model",
    "units": "units",
    "launches": "launches",
    "in part of a wave": "launches_below_one_wave",
    "kernels": "kernels",
    "most registers": "most_registers",
    "most shared bytes": "most_shared_bytes",
    "fewest blocks a multiprocessor": "fewest_blocks_per_processor",
}
#: Heading of a column, and the field that is compared before and now.
FILL = {
    "launches": "launches",
    "median blocks": "median_blocks",
    "median SMs with a block": "median_processors",
    "on less than a tenth of the SMs": "below_a_tenth",
    "µs": "microseconds",
    "µs with launches": "with_launches",
}


def page() -> str:
    """The page, made of the files above."""
    parts = TEXT.read_text().split("<!-- table -->\n")
    persistent = _figures("persistent_kernel")
    networks = _figures("cuda_kernels")["networks"]
    kernels = [{**n, "local": max(n["in_local_memory"].values(), default=0)} for n in networks]
    tables = (
        _table({"network": "network", **{heading: heading for heading in FILL}}, _fill()),
        _table(PERSISTENT, persistent),
        _table({**KERNELS, "local": "local"}, kernels),
    )
    return parts[0] + "".join(map("".join, zip(tables, parts[1:], strict=True)))


def _fill() -> list[dict[str, Any]]:
    """Before and now of each network, in a cell."""
    rows: list[dict[str, Any]] = []
    for network in _figures("cuda_fill")["networks"]:
        before, now = network["before"], network["after"]
        cells = {heading: f"{before[f]:g} → {now[f]:g}" for heading, f in FILL.items()}
        rows.append({"network": network["model"], **cells})
    return rows


def _figures(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())["figures"]


def _table(columns: dict[str, str], rows: list[dict[str, Any]]) -> str:
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    for row in rows:
        cells = [str(row[field]) for field in columns.values()]
        lines.append(f"| `{cells[0]}` | {' | '.join(cells[1:])} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or say that it is old."""
    text = page()
    if "--check" not in sys.argv:
        PAGE.write_text(text)
        return 0
    old = PAGE.read_text() if PAGE.exists() else ""
    if old != text:
        print(f"{PAGE.name} is old: run python docs/make/cuda.py", file=sys.stderr)
    return int(old != text)


if __name__ == "__main__":
    sys.exit(main())
