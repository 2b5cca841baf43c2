"""Norms: layer norms that are spelled out, group norms of any opset; gathers that are slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

from tests.onnx_sketch import Sketch, kinds, simplify_checked
from tvm_ios.onnx.graph import graph_from_onnx

SHAPE = (2, 5, 6)


def spelled_out(
    s: Sketch, *, axes: tuple[int, ...] = (-1,), power: bool = True, scale: bool = True
) -> str:
    extents = tuple(SHAPE[axis] for axis in axes)
    options = (
        {"axes": list(axes)} if s.opset < 18 else {}  # an input from then on
    )
    inputs = [] if s.opset < 18 else [s.const(np.array(axes, np.int64))]
    centred = s.op("Sub", "x", s.op("ReduceMean", "x", *inputs, **options))
    square = (
        s.op("Pow", centred, s.const(np.float32(2))) if power else s.op("Mul", centred, centred)
    )
    variance = s.op("ReduceMean", square, *inputs, **options)
    root = s.op("Sqrt", s.op("Add", variance, s.const(np.float32(1e-3))))
    normal = s.op("Div", centred, root)
    if not scale:
        return normal
    return s.op("Add", s.op("Mul", s.positive(*extents), normal), s.normal(*extents))


@pytest.mark.parametrize("opset", [13, 17, 18])
@pytest.mark.parametrize(
    "build",
    [
        lambda s: spelled_out(s),
        lambda s: spelled_out(s, axes=(-2, -1), power=False),
        lambda s: spelled_out(s, scale=False),
    ],
    ids=["last", "last two", "plain"],
)
def test_a_layer_norm_becomes_one_operator(build: Callable[[Sketch], str], opset: int) -> None:
    s = Sketch(*SHAPE, opset=opset)
    model = s.model(build(s))
    simple = simplify_checked(model)
    onnx.checker.check_model(simple, full_check=True)
    assert kinds(simple) == ["LayerNormalization"]


def middle_axis(s: Sketch) -> list[str]:
    centred = s.op("Sub", "x", s.op("ReduceMean", "x", axes=[1]))
    variance = s.op("ReduceMean", s.op("Mul", centred, centred), axes=[1])
    root = s.op("Sqrt", s.op("Add", variance, s.const(np.float32(1e-3))))
    return [s.op("Div", centred, root)]


def read_inside(s: Sketch) -> list[str]:
    centred = s.op("Sub", "x", s.op("ReduceMean", "x", axes=[-1]))
    variance = s.op("ReduceMean", s.op("Mul", centred, centred), axes=[-1])
    root = s.op("Sqrt", s.op("Add", variance, s.const(np.float32(1e-3))))
    return [s.op("Div", centred, root), variance]


@pytest.mark.parametrize("build", [middle_axis, read_inside])
def test_what_only_looks_like_one_stays(build: Callable[[Sketch], list[str]]) -> None:
    s = Sketch(*SHAPE)
    model = s.model(*build(s))
    simple = simplify_checked(model)
    assert "LayerNormalization" not in kinds(simple)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (np.array(-2), ["Reshape", "Slice"]),
        (np.array([3]), ["Slice"]),
        (np.array([3, 1]), ["Gather"]),
    ],
    ids=["a number", "one", "two"],
)
def test_a_gather_of_one_index_is_a_slice(index: np.ndarray, expected: list[str]) -> None:
    s = Sketch(*SHAPE)
    model = s.model(s.op("Gather", "x", s.const(index), axis=1))
    simple = simplify_checked(model, within=0)
    onnx.checker.check_model(simple, full_check=True)
    assert kinds(simple) == expected


def test_products_that_share_a_weight_share_what_becomes_of_it() -> None:
    s = Sketch(1, 6)
    weight, bias = s.normal(4, 6), s.normal(1, 4)
    rows = [s.op("Gemm", s.op(kind, "x"), weight, bias, transB=1) for kind in ("Relu", "Tanh")]
    model = s.model(s.op("Sub", *rows))
    simple = simplify_checked(model)
    assert len(simple.graph.initializer) == 2


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
