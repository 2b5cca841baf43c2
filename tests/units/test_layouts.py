"""Images between units lie with their channels innermost, the matrices of attention do not."""

from __future__ import annotations

from typing import Any

import pytest

from relay_passes.pipeline import prepare
from relay_passes.relax.importer import import_onnx
from runtime_ext.units.layouts import AS_IS, NHWC, tensor_layouts
from tests.onnx_sketch import Sketch
from tvm_ios.models.load import load_onnx
from tvm_ios.onnx.simplify import simplify


@pytest.mark.parametrize(
    ("model", "expected"), [("transformer_small", AS_IS), ("inception_block", NHWC)]
)
def test_layout_of_four_dimensional_tensors(model: str, expected: str) -> None:
    inner = inner_layouts(load_onnx(model))
    assert len(inner) > 5
    assert set(inner) == {expected}


def inner_layouts(model: Any) -> list[str]:
    """The layouts of what has four axes and is neither an input nor a constant, in order."""
    prepared = prepare(import_onnx(model))
    units = prepared.units
    functions = [prepared.outliner.unit(unit).function for unit in range(len(units))]
    layouts = tensor_layouts(units, functions)
    return [
        layout
        for number, (tensor, layout) in enumerate(zip(units.tensors, layouts, strict=True))
        if len(tensor.shape) == 4 and not tensor.constant and number not in units.inputs
    ]


def test_four_axes_alone_are_no_image() -> None:
    sketch = Sketch(1, 4, 6, 8)
    mask = sketch.op("Softmax", sketch.op("Relu", "x"), axis=2)
    mask = sketch.op("Transpose", sketch.op("CumSum", mask, sketch.const(3)), perm=[0, 2, 1, 3])
    layouts = inner_layouts(simplify(sketch.model(mask)))
    assert layouts == [AS_IS, AS_IS]


def test_images_end_where_axes_move() -> None:
    """As in ConvNeXt: what is normalised over the last axis lies along it."""
    sketch = Sketch(1, 4, 6, 6)
    image = sketch.op("Mul", sketch.op("Relu", sketch.conv("x", 4, 16)), sketch.const(2.0))
    rows = sketch.op("Transpose", sketch.op("Abs", image), perm=[0, 2, 3, 1])
    rows = sketch.op("Softmax", rows, axis=-1)
    layouts = inner_layouts(simplify(sketch.model(sketch.op("CumSum", rows, sketch.const(3)))))
    assert layouts == [NHWC, AS_IS, AS_IS]
