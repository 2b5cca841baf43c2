"""Convolutions and pools along one axis are those of images of one row, as far as these go."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.onnx_sketch import Sketch, kinds, simplify_checked
from tvm_ios.onnx.graph import graph_from_onnx

_CONVOLUTION = {"pads": [2, 1], "strides": [2], "dilations": [2]}


def _check(model: Any) -> Any:
    """Simplified, it computes the same, and no window is of one axis."""
    simple = simplify_checked(model, within=1e-6)
    onnx.checker.check_model(simple, full_check=True)
    for node in simple.graph.node:
        windows = [a for a in node.attribute if a.name in ("strides", "pads", "kernel_shape")]
        assert all(len(a.ints) in (2, 4) for a in windows)
    names = [[value.name for value in graph.output] for graph in (model.graph, simple.graph)]
    assert names[0] == names[1]
    return simple


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize(
    ("kind", "weight", "attributes"),
    [
        ("Conv", (6, 4, 3), _CONVOLUTION),
        ("Conv", (6, 4, 3), {"auto_pad": "SAME_UPPER", "strides": [2], "kernel_shape": [3]}),
        ("Conv", (8, 1, 5), {"group": 4, "pads": [2, 2]}),
        ("ConvTranspose", (4, 6, 3), {"strides": [2], "pads": [1, 0], "output_padding": [1]}),
        ("ConvTranspose", (4, 3, 3), {"group": 2, "dilations": [2]}),
    ],
)
def test_convolutions(
    kind: str, weight: tuple[int, ...], attributes: dict[str, Any], opset: int
) -> None:
    sketch = Sketch(2, 4, 17, opset=opset)
    _check(sketch.model(sketch.op(kind, "x", sketch.normal(*weight), **attributes)))


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [3], "strides": [2], "pads": [1, 0], "dilations": [2]}),
        ("MaxPool", {"kernel_shape": [3], "strides": [2], "ceil_mode": 1}),
        ("AveragePool", {"kernel_shape": [4], "pads": [2, 1], "count_include_pad": 1}),
        ("AveragePool", {"kernel_shape": [2], "pads": [1, 0]}),
        ("GlobalAveragePool", {}),
        ("GlobalMaxPool", {}),
    ],
)
def test_pools(kind: str, attributes: dict[str, Any]) -> None:
    sketch = Sketch(2, 4, 16)
    _check(sketch.model(sketch.op(kind, "x", **attributes)))


def test_places_of_maxima_stay_of_one_axis() -> None:
    sketch = Sketch(1, 4, 16)
    pooled, places = sketch.op("MaxPool", "x", outputs=2, kernel_shape=[2])
    model = sketch.model(pooled, sketch.op("Cast", places, to=1))
    simplify_checked(model, within=0)


def test_between_convolutions_no_shape_changes() -> None:
    sketch = Sketch(1, 4, 20)
    first = sketch.op("Conv", "x", sketch.normal(8, 4, 3), sketch.normal(8), pads=[1, 1])
    gate = sketch.op("Sigmoid", first)
    first = sketch.op("Mul", first, gate)
    for constant in (sketch.normal(8, 1), sketch.normal(20), sketch.normal(1, 8, 20)):
        first = sketch.op("Add", first, constant)
    second = sketch.op("Conv", first, sketch.normal(8, 8, 3), pads=[1, 1])
    second = sketch.op("Clip", sketch.norm(second, 8), sketch.const(np.float32(-1)))
    mean = sketch.op("GlobalAveragePool", second)
    scaled = sketch.op("Mul", second, sketch.op("Conv", mean, sketch.normal(8, 8, 1)))
    summed = sketch.op("Add", scaled, first)
    for axis in (1, -1, -2):
        summed = sketch.op("Concat", summed, summed, axis=axis)
    simple = _check(sketch.model(sketch.op("MaxPool", summed, kernel_shape=[2])))
    changes = [kind for kind in kinds(simple) if kind in ("Unsqueeze", "Squeeze", "Reshape")]
    assert changes == ["Squeeze", "Unsqueeze"]
    assert {op.kind for op in graph_from_onnx(simple).operators} >= {"conv2d", "max_pool2d"}


def test_what_reads_rows_and_outputs_have_them() -> None:
    sketch = Sketch(1, 4, 10)
    first = sketch.op("Conv", "x", sketch.normal(6, 4, 3))
    turned = sketch.op("Transpose", sketch.op("Relu", first), perm=[0, 2, 1])
    added = sketch.op("Add", first, sketch.op("ReduceMean", first, axes=[2], keepdims=1))
    _check(sketch.model(first, sketch.op("MatMul", turned, sketch.normal(6, 5)), added))


def test_computed_weights_stay() -> None:
    sketch = Sketch(2, 4, 10)
    weight = sketch.op("Transpose", sketch.op("Abs", "x"), perm=[0, 1, 2])
    model = sketch.model(sketch.op("Conv", "x", weight))
    simplify_checked(model, within=1e-6)
