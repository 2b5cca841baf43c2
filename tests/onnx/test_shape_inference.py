"""Shapes that long constants tell, and a model that stays as it is where inference fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from tests.onnx_sketch import Sketch, simplify_checked
from tvm_ios.onnx.shape_inference import infer_shapes
from tvm_ios.onnx.supported import require_supported


def many_parts(s: Sketch) -> Any:
    parts = s.op("Split", "x", s.const(np.ones(150, np.int64)), outputs=150, axis=0)
    return s.model(s.op("Concat", *parts[::-1], axis=0))


def many_steps(s: Sketch) -> Any:
    return s.model(s.op("RNN", "x", s.normal(1, 4, 5), s.normal(1, 4, 4), hidden_size=4))


@pytest.mark.parametrize("make", [many_parts, many_steps])
def test_long_lists_of_sizes_are_read(make: Any) -> None:
    shape = (150, 5) if make is many_parts else (150, 1, 5)
    model = make(Sketch(*shape))
    simplified = simplify_checked(model)
    require_supported("m", simplified)


def test_a_model_that_cannot_be_written_stays() -> None:
    model: Any = ir.serde.deserialize_model(many_parts(Sketch(150, 5)))
    before = list(model.graph.inputs), list(model.graph.initializers)
    model.graph.outputs[0].type = ir.TensorType(None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ir.serde.SerdeError):
        infer_shapes(model)
    assert (list(model.graph.inputs), list(model.graph.initializers)) == before
