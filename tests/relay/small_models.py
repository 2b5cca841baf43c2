"""A small ONNX model for the commands: convolutions that can be merged or run side by side."""

from __future__ import annotations

from pathlib import Path

from tests.onnx_sketch import Sketch


def write_small_model(folder: Path) -> Path:
    """``small.onnx`` in a folder."""
    sketch = Sketch(1, 8, 6, 7)
    x = sketch.op("Relu", sketch.conv("x", 8, 16))
    branches = sketch.conv(x, 16, 16), sketch.conv(x, 16, 8, kernel=1)
    joined = sketch.op("Concat", *branches, sketch.op("Sigmoid", x), axis=1)
    path = folder / "small.onnx"
    path.write_bytes(sketch.model(sketch.op("Flatten", joined)).SerializeToString())
    return path
