"""Which units of a described graph have kernels that can be tuned."""

from __future__ import annotations

from tests.onnx_sketch import Sketch
from tvm_ios.graph.units import form_units
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.schedule.first_difference import describe, has_contraction


def test_contractions_can_be_tuned() -> None:
    sketch = Sketch(1, 8, 6, 6)
    image = sketch.op("MaxPool", sketch.conv("x", 8, 8, group=8), kernel_shape=[2, 2])
    image = sketch.op("Sqrt", sketch.op("Relu", sketch.conv(image, 8, 16)))
    matrix = sketch.op("MatMul", sketch.op("Flatten", image), sketch.normal(16 * 25, 3))
    graph = form_units(graph_from_onnx(sketch.model(matrix)))
    tunable = {unit["kind"]: has_contraction(unit) for unit in describe(graph)["units"]}
    # The first is depthwise.
    assert tunable == {
        "conv2d": False,
        "max_pool2d": False,
        "conv2d+relu": True,
        "sqrt+reshape": False,
        "dense": True,
    }
