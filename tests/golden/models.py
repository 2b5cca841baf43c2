"""Small models of the kinds that take different ways through the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from tests.onnx_sketch import Sketch
from tests.quantised_models import rounded_convolution
from tests.small_executable import small_model

_SWEEP = """[sweep]
models = ["dynamic.onnx"]
batches = [1, 4]
devices = ["v100", "k80"]
policies = ["sequential", "ios-both"]
crossings = ["batches", "devices"]
memory = ["rpo"]
"""


def _data_decided() -> Any:
    sketch = Sketch(1, 4, 6, 6)
    return sketch.model(sketch.op("NonZero", sketch.op("Relu", sketch.conv("x", 4, 4))))


def write_models(folder: Path) -> None:
    """Write models: static, dynamic, quantised, with an end that data decide; and a sweep."""
    models = {
        "static": small_model(),
        "dynamic": small_model("n"),
        "quantised": rounded_convolution(),
        "detector": _data_decided(),
    }
    for name, model in models.items():
        onnx.save(model, folder / f"{name}.onnx")
    (folder / "truncated.onnx").write_bytes((folder / "static.onnx").read_bytes()[:-100])
    (folder / "sweep.toml").write_text(_SWEEP)
