"""Group norms of any opset have a shape, which what comes after them needs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.onnx_sketch import Sketch, kinds, simplify_checked
from tvm_ios.onnx.graph import graph_from_onnx


def _normed(opset: int, shape: tuple[int, ...]) -> tuple[Sketch, str]:
    sketch = Sketch(*shape, opset=opset)
    count = shape[1] if opset >= 21 else 2
    rows = sketch.positive(count), sketch.normal(count)
    return sketch, sketch.op("GroupNormalization", "x", *rows, num_groups=2, epsilon=0.01)


@pytest.mark.parametrize("opset", [18, 21, 23])
@pytest.mark.parametrize("shape", [(2, 4, 5), (1, 6, 5, 3)])
def test_what_comes_after_them_is_scheduled(opset: int, shape: tuple[int, ...]) -> None:
    sketch, normed = _normed(opset, shape)
    model = sketch.model(sketch.op("MatMul", normed, sketch.normal(shape[-1], 7)))
    simple = simplify_checked(model, within=1e-6)
    operators = graph_from_onnx(simple)
    assert operators.tensors[operators.operators[-1].outputs[0]].shape == (*shape[:-1], 7)


def test_operators_that_are_written_out_come_after_them() -> None:
    sketch, normed = _normed(23, (2, 4, 6))
    heads: dict[str, Any] = {"q_num_heads": 2, "kv_num_heads": 2}
    read = [sketch.op("MatMul", normed, sketch.normal(6, 8)) for _ in range(3)]
    model = sketch.model(sketch.op("Attention", *read, **heads))
    simple = simplify_checked(model)
    assert "Attention" not in kinds(simple)
