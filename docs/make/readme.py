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
_PEERS = ("onnxruntime", "openvino")
#: Of each result of ``tvm-ios bench``, whom its columns compare with.
_COLUMNS = {"bench_zen4": _PEERS, "bench_zen4_batch8": ("sequential", *_PEERS)}
_BEGIN, _END = "<!-- table: python docs/make/readme.py -->\n", "<!-- end of the table -->"

_CAPTION = """
What a run takes on two cores ({processor}, Zen 4, {date}) in float32, with nothing tuned, and how
many times as long ONNX Runtime, OpenVINO and, with eight images, our own kernels one unit after
another take (`python -m benchmarks.networks.side_by_side`). Networks named `light_` come with the
`onnx` package; weights are random.

"""
_NAMES = ("ONNX Runtime", "OpenVINO")
_HEADS = ("1 image", *_NAMES, "8 images", "one after another", *_NAMES)


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
    lines = [
        _line("network", _HEADS),
        "|" + "---|" * (1 + len(_HEADS)) + "\n",
        *(_line(f"`{name}`", _of([rows[name] for rows in networks])) for name in both),
        _line("geometric mean", _means([[rows[name] for name in both] for rows in networks])),
    ]
    return _CAPTION.format(**results[0]["machine"]) + "".join(lines) + "\n"


def _of(rows: Sequence[Any]) -> Iterator[str]:
    for row, compared in zip(rows, _COLUMNS.values(), strict=True):
        yield f"{row['latency_ms']['ours']:.1f} ms"
        yield from (f"{1 / row['ratio'][name]['median']:.2f}" for name in compared)


def _means(columns: Sequence[Sequence[Any]]) -> Iterator[str]:
    for rows, compared in zip(columns, _COLUMNS.values(), strict=True):
        yield ""
        for name in compared:
            yield f"{geometric_mean(1 / row['ratio'][name]['median'] for row in rows):.2f}"


def _line(name: str, cells: Iterable[str]) -> str:
    return f"| {' | '.join((name, *cells))} |\n"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        raise SystemExit(page() != PAGE.read_text())
    PAGE.write_text(page())
