"""What a model says of its outputs is what they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from relay_passes.dialect import DialectError
from relay_passes.relax.importer import import_onnx
from tests.onnx_sketch import Sketch, run_on
from tests.refusals import refused
from tvm_ios.onnx.simplify import simplify


def declared(*shape: int | str, batch: int | str = 1) -> Any:
    s = Sketch(batch, 4, 6)
    model = s.model(s.op("Relu", s.op("Concat", "x", "x", axis=1)))
    dims = model.graph.output[0].type.tensor_type.shape.dim
    for extent, number in zip(dims, shape, strict=True):
        extent.Clear()
        extent.dim_value = number
    return model


def test_another_shape_is_refused() -> None:
    with refused(DialectError, "v1_0", "[1, 8, 6]", "[1, 8, 7]"):
        import_onnx(simplify(declared(1, 8, 7)))


def test_the_shape_for_another_batch_is_forgotten() -> None:
    model = declared(1, 8, 6, batch="n")
    simple = simplify(model, {"x": (3, 4, 6)})
    import_onnx(simple)
    x = np.ones((3, 4, 6), np.float32)
    assert run_on(simple, {"x": x})[0].shape == (3, 8, 6)
