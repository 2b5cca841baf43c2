"""Writes the measured tables of ``README.md``; ``--check`` only compares."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
_BEGIN, _END = "<!-- tables: python docs/make/readme.py -->\n", "<!-- end of the tables -->"
#: Others that trained networks and loads are compared with, and that modules of torch are.
_PEERS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
_INDUCTOR = "Inductor"
#: The trained networks of ``bench_zen4_packaged`` in rows, and what those of a row find.
_TASKS = {
    ("silero_vad",): "voice or none",
    ("wake_word_lstm",): "a wake word",
    ("lemma_gru_int8",): "lemmas of words, 8 bits",
    ("khmer_tagger",): "words of Khmer",
    ("dnsmos",): "quality of speech",
    ("magika",): "types of files",
    ("minilm",): "embeddings of sentences",
    ("denoiser_gru",): "noise in speech",
    ("yolov8n",): "objects in a photograph",
    ("captcha_lstm_int8",): "distorted characters, 8 bits",
    ("basic_pitch",): "notes of music",
    ("smart_turn_int8",): "turns of a talk, 8 bits",
    ("page_layout",): "regions of a page",
    ("ppocr_det", "ppocr_cls", "ppocr_rec"): "text on a page, its way up, its characters",
    ("chemical_shifts",): "shifts of proteins",
}
#: What runs beside a network, of ``steadiness``, and how the table says it.
_LOADS = {
    "quiet": "nothing",
    "1 busy": "one process that never waits",
    "4 niced": "four with `nice 19`",
    "quota of 1.5 CPUs": "a container's quota of 1.5 CPUs",
}

_CAPTION = (
    "How many times as long as ours others take on two cores ({processor}, Zen 4, {date}), with "
    "nothing tuned: trained networks of Python\npackages (`python -m "
    "benchmarks.networks.side_by_side packaged`), modules of torch beside Inductor, the default of "
    "`torch.compile`\n(`python -m benchmarks.networks.torch_compile`), and {images} networks of "
    "images beside other work (`python -m benchmarks.serving.steadiness`):\n\n"
)
_MEMORY = (
    "Over 1,000 texts of any length an encoder's process stays below {ours:.0f} MB, with ONNX "
    "Runtime {onnxruntime:.0f}, with OpenVINO {openvino:.0f} (`python -m "
    "benchmarks.networks.open_memory`).\n"
)


def page() -> str:
    """The README with the tables of the results."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, end, after = rest.partition(_END)
    return f"{before}{_BEGIN}{_caption()}{_networks()}\n{_steadiness()}\n{_memory()}{end}{after}"


def _caption() -> str:
    images = {row["network"] for row in _read("steadiness")["figures"]}
    return _CAPTION.format(**_read("bench_zen4_packaged")["machine"], images=len(images))


def _networks() -> str:
    rows = {row["model"]: row for row in _read("bench_zen4_packaged")["networks"]}
    lines = [("network", "finds", "ours", *_PEERS.values(), _INDUCTOR)]
    assert {name for names in _TASKS for name in names} == {*rows}, "all are in the table"
    for names, task in _TASKS.items():
        latencies = [rows[name]["latency_ms"]["ours"] for name in names]
        others = [_all(_others(rows[name], peer) for name in names) for peer in _PEERS]
        lines.append((_named(names), task, f"{_all(latencies)} ms", *others, ""))
    means = [geometric_mean(_others(row, peer) for row in rows.values()) for peer in _PEERS]
    lines.append(("geometric mean", "", "", *(_all([mean]) for mean in means), ""))
    modules = _read("torch_compile")["figures"]
    latencies = [row["milliseconds"] for row in modules]
    inductor = _all(1 / row["ratios"]["inductor"][0] for row in modules)
    named = _named(row["network"] for row in modules)
    lines.append((named, "modules of torch", f"{_all(latencies)} ms", "", "", inductor))
    return _table(lines)


def _others(row: Any, peer: str) -> float:
    """How many times as long as ours a peer takes."""
    return 1 / row["ratio"][peer]["median"]


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _all(numbers: Iterable[float]) -> str:
    return ", ".join(f"{number:.2f}" for number in numbers)


def _steadiness() -> str:
    figures = _read("steadiness")["figures"]
    heads = (f"{name}{what}" for name in _PEERS.values() for what in ("", ", 99 %"))
    lines = [("beside it", *heads)]
    for load, said in _LOADS.items():
        rows = [row for row in figures if row["case"] == load]
        cells: list[float] = []
        for peer in _PEERS:
            medians = (1 / row["ours_to_it"][peer]["median"] for row in rows)
            ends = (row["p99_ms"][peer] / row["p99_ms"]["ours"] for row in rows)
            cells += (geometric_mean(medians), geometric_mean(ends))
        lines.append((said, *(_all([cell]) for cell in cells)))
    return _table(lines)


def _memory() -> str:
    figures = _read("open_memory")["figures"]
    rows = [row for row in figures if row["what"] == "memory" and row["threads"] == 2]
    assert {row["runs"] for row in rows} == {1000}
    # Megabytes, rounded up.
    return _MEMORY.format(**{row["runner"]: -(-max(row["seen"]) // 10**6) for row in rows})


def _read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


def _table(lines: Sequence[Iterable[str]]) -> str:
    rows = [f"| {' | '.join(cells)} |" for cells in lines]
    rows.insert(1, "|" + "---|" * (rows[0].count("|") - 1))
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        raise SystemExit(page() != PAGE.read_text())
    PAGE.write_text(page())
