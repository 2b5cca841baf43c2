"""Writes the measured table of ``README.md``; ``--check`` only compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "README.md"
RESULT = ROOT / "benchmarks" / "results" / "graphturbo_cpu.json"
_BATCH = 8
#: Measured when it was another network than the published one.
_REPLACED = "nasnet_a_mobile"
_BEGIN, _END = "<!-- table: python docs/make/readme.py -->\n", "<!-- end of the table -->"

_CAPTION = """
`holistic`, the best of all policies block by block, with {batch} images on {lanes} cores
({processor}, {date}; 95 % intervals of pairs of runs;
`python -m benchmarks.networks.graphturbo_cpu`):

| network | {batch} images | to one unit after another | to ONNX Runtime |
|---|---|---|---|
"""


def page() -> str:
    """The README with the table of the results."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return before + _BEGIN + _table(json.loads(RESULT.read_text())) + end + after


def _table(results: Any) -> str:
    machine = results["machine"]
    rows = [
        row for row in results["figures"] if row["batch"] == _BATCH and row["model"] != _REPLACED
    ]
    lines = [_row(row) for row in sorted(rows, key=lambda row: row["latency_ms"]["holistic"])]
    return _CAPTION.format(batch=_BATCH, **machine) + "".join(lines) + "\n"


def _row(row: Any) -> str:
    ratios = (_ratio(row["speed_up"]["holistic"][other]) for other in ("sequential", "onnxruntime"))
    latency = f"{row['latency_ms']['holistic']:.1f} ms"
    name = f"`{row['model']}`"
    return f"| {' | '.join((name, latency, *ratios))} |\n"


def _ratio(ratio: Any) -> str:
    return f"{ratio['median']:.2f} times as fast ({ratio['low']:.2f} to {ratio['high']:.2f})"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        raise SystemExit(page() != PAGE.read_text())
    PAGE.write_text(page())
