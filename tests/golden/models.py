"""Small models of the kinds that take different ways through the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from tests.onnx_sketch import Sketch
from tests.quantised_models import rounded_convolution

_SWEEP = """[sweep]
models = ["dynamic.onnx"]
batches = [1, 4]
devices = ["v100", "k80"]
policies = ["sequential", "ios-both"]
crossings = ["batches", "devices"]
memory = ["rpo"]
"""


def _branches(batch: int | str) -> Any:
    sketch = Sketch(batch, 8, 12, 12)
    left, right = (sketch.op("Relu", sketch.conv("x", 8, 16)) for _ in range(2))
    return sketch.model(sketch.conv(sketch.op("Add", left, right), 16, 4))


def _data_decided() -> Any:
    sketch = Sketch(1, 4, 6, 6)
    return sketch.model(sketch.op("NonZero", sketch.op("Relu", sketch.conv("x", 4, 4))))


def write_models(folder: Path) -> None:
    """Write models: static, dynamic, quantised, with an end that data decide; and a sweep."""
    models = {
        "static": _branches(1),
        "dynamic": _branches("n"),
        "quantised": rounded_convolution(),
        "detector": _data_decided(),
    }
    for name, model in models.items():
        onnx.save(model, folder / f"{name}.onnx")
    (folder / "truncated.onnx").write_bytes((folder / "static.onnx").read_bytes()[:-100])
    (folder / "sweep.toml").write_text(_SWEEP)
