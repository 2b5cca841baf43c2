"""Writes the measured table of ``README.md``; ``--check`` only compares."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
#: Whom columns compare with, and how they name them.
_NAMES = {
    "sequential": "one after another",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
}
#: Of each result of ``tvm-ios bench`` what it is of, and whom it is compared with.
_COLUMNS = {
    "bench_zen4": ("1 image", ("onnxruntime", "openvino")),
    "bench_zen4_batch8": ("8 images", tuple(_NAMES)),
}
_BEGIN, _END = "<!-- table: python docs/make/readme.py -->\n", "<!-- end of the table -->"

_CAPTION = """
What a run takes on two cores ({processor}, Zen 4, {date}) in float32, with nothing tuned, and how
many times as long ONNX Runtime, OpenVINO and, with eight images, our own kernels one unit after
another take (`python -m benchmarks.networks.side_by_side`). Networks named `light_` come with the
`onnx` package; weights are random.

"""


def page() -> str:
    """The README with the table of the results."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return before + _BEGIN + _table() + end + after


def _table() -> str:
    results = [json.loads((RESULTS / f"{name}.json").read_text()) for name in _COLUMNS]
    networks = [{row["model"]: row for row in result["networks"]} for result in results]
    first, *others = networks
    both = [name for name in first if all(name in other for other in others)]
    both.sort(key=lambda name: first[name]["latency_ms"]["ours"])

    def line(head: str, models: Sequence[str]) -> str:
        return _line(head, _cells([[rows[model] for model in models] for rows in networks]))

    heads = [
        cell for what, to in _COLUMNS.values() for cell in (what, *(_NAMES[name] for name in to))
    ]
    lines = [
        _line("network", heads),
        "|" + "---|" * (1 + len(heads)) + "\n",
        *(line(f"`{name}`", [name]) for name in both),
        line("geometric mean", both),
    ]
    return _CAPTION.format(**results[0]["machine"]) + "".join(lines) + "\n"


def _cells(columns: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Of a network, or the means of several, which have no latency; the rows of each result."""
    for rows, (_, compared) in zip(columns, _COLUMNS.values(), strict=True):
        yield f"{rows[0]['latency_ms']['ours']:.1f} ms" if len(rows) == 1 else ""
        for name in compared:
            yield f"{geometric_mean(1 / row['ratio'][name]['median'] for row in rows):.2f}"


def _line(name: str, cells: Iterable[str]) -> str:
    return f"| {' | '.join((name, *cells))} |\n"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        raise SystemExit(page() != PAGE.read_text())
    PAGE.write_text(page())
