"""Images between units lie with their channels innermost, the matrices of attention do not."""

from __future__ import annotations

import pytest

from relay_passes.pipeline import prepare
from relay_passes.relax.importer import import_onnx
from runtime_ext.units.layouts import AS_IS, NHWC, tensor_layouts
from tvm_ios.models.load import load_onnx


@pytest.mark.parametrize(
    ("model", "expected"), [("transformer_small", AS_IS), ("inception_block", NHWC)]
)
def test_layout_of_four_dimensional_tensors(model: str, expected: str) -> None:
    prepared = prepare(import_onnx(load_onnx(model)))
    units = prepared.units
    functions = [prepared.outliner.unit(unit).function for unit in range(len(units))]
    layouts = tensor_layouts(units, functions)
    inner = [
        layout
        for number, (tensor, layout) in enumerate(zip(units.tensors, layouts, strict=True))
        if len(tensor.shape) == 4 and not tensor.constant and number not in units.inputs
    ]
    assert len(inner) > 5
    assert set(inner) == {expected}
