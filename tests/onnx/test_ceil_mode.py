"""No pool has a window that begins in the padding at its end, whatever the opset counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.onnx_sketch import Sketch, kinds, relative_error, run, simplify_checked
from tests.refusals import refused
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.onnx.simplify import simplify

#: Kernel, strides, pads of rows, pads of columns: the windows of the rows come to one less.
_LESS_PADDING = ([2, 3], [2, 2], (1, 1), (1, 1))
#: The last row is read by no window; the columns have a part of one.
_LESS_IMAGE = ([1, 3], [3, 2], (0, 0), (0, 0))


def _pooled(kind: str, opset: int, windows: Any, **attributes: Any) -> Any:
    """A pool of 5 rows and 8 columns, and what reads its result by its shape."""
    kernel, strides, rows, columns = windows
    sketch = Sketch(1, 2, 5, 8, opset=opset)
    pads = [rows[0], columns[0], rows[1], columns[1]]
    attributes |= {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": 1}
    pooled = sketch.op(kind, "x", **attributes)
    sizes = sketch.op("Mul", sketch.op("Shape", pooled), sketch.const(np.array([1, 1, 2, 2])))
    return sketch.model(pooled, sketch.op("Resize", pooled, "", "", sizes))


@pytest.mark.parametrize("opset", [13, 18, 22])
@pytest.mark.parametrize("windows", [_LESS_PADDING, _LESS_IMAGE])
@pytest.mark.parametrize(
    ("kind", "attributes"),
    [("MaxPool", {}), ("AveragePool", {}), ("AveragePool", {"count_include_pad": 1})],
)
def test_windows_that_begin_in_the_padding(
    kind: str, attributes: dict[str, int], windows: Any, opset: int
) -> None:
    model = _pooled(kind, opset, windows, **attributes)
    simple = simplify(model)
    outputs = run(simple)
    assert relative_error(outputs, run(model)) < 1e-6
    declared = [[d.dim_value for d in o.type.tensor_type.shape.dim] for o in simple.graph.output]
    assert declared == [list(output.shape) for output in outputs]
    assert "Slice" not in kinds(simple) or windows is _LESS_IMAGE


def test_other_pools_are_as_they_were() -> None:
    sketch = Sketch(1, 2, 8, 8, opset=11)
    model = sketch.model(
        sketch.op("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    )
    (pool,) = graph_from_onnx(model).operators
    assert pool.attrs["pads"] == (0, 0, 0, 0)
    assert graph_from_onnx(model).tensors[pool.outputs[0]].shape == (1, 2, 4, 4)


def test_numbers_of_pixels_that_are_not_read_are_refused() -> None:
    kernel, strides, *_ = _LESS_IMAGE
    sketch = Sketch(1, 2, 5, 8, opset=11)
    attributes = {"kernel_shape": kernel, "strides": strides, "ceil_mode": 1}
    pooled, places = sketch.op("MaxPool", "x", outputs=2, **attributes)
    with refused(GraphError, "MaxPool", "ceil_mode=0"):
        simplify(sketch.model(pooled, sketch.op("Cast", places, to=1)))


def test_images_whose_shape_is_known_too_late_are_refused() -> None:
    sketch = Sketch(2, 40, opset=13)
    shape = sketch.op("Abs", sketch.const(np.array([1, -2, 5, 8])))
    attributes = {"kernel_shape": [2, 3], "strides": [2, 2], "pads": [1] * 4, "ceil_mode": 1}
    pooled = sketch.op("MaxPool", sketch.op("Reshape", "x", shape), **attributes)
    with refused(GraphError, "MaxPool", "ceil_mode=0"):
        simplify(sketch.model(pooled))


def test_images_that_control_flow_makes() -> None:
    sketch = Sketch(1, 2, 5, 8, opset=18)
    tensor = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Neg", ["v"], ["w"])],
        "body",
        [
            tensor("n", TensorProto.INT64, ()),
            tensor("go", TensorProto.BOOL, ()),
            tensor("v", TensorProto.FLOAT, None),
        ],
        [tensor("on", TensorProto.BOOL, ()), tensor("w", TensorProto.FLOAT, None)],
    )
    image = sketch.op("Loop", sketch.const(np.array(1)), "", "x", body=body)
    kernel, strides, *_ = _LESS_PADDING
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": [1] * 4, "ceil_mode": 1}
    model = sketch.model(sketch.op("MaxPool", image, **attributes))
    simplify_checked(model, within=1e-6)
