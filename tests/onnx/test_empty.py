"""What has no elements is a constant; what is made of it is what ONNX says."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.interface_models import interface_model
from tests.onnx_sketch import kinds
from tvm_ios.onnx.graph import graph_from_onnx
from tvm_ios.onnx.simplify import simplify

_KINDS = (np.float32, np.float16, np.int32, np.uint8)


def reduction(kind: str, dtype: type, *, axes_given: bool) -> onnx.ModelProto:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    inputs = [helper.make_tensor_value_info("x", element, [2, 0, 4])]
    weights = []
    if axes_given:
        weights.append(helper.make_tensor("axes", onnx.TensorProto.INT64, [1], [1]))
    else:
        inputs.append(helper.make_tensor_value_info("axes", onnx.TensorProto.INT64, [1]))
    node = helper.make_node(kind, ["x", "axes"], ["y"])
    output = helper.make_tensor_value_info("y", element, [2, 1, 4])
    graph = helper.make_graph([node], "m", inputs, [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("axes_given", [True, False], ids=["axes", "axes as input"])
@pytest.mark.parametrize("dtype", _KINDS)
@pytest.mark.parametrize(
    "kind", [f"Reduce{k}" for k in ("L1", "L2", "Max", "Min", "Prod", "Sum", "SumSquare")]
)
def test_reductions_of_nothing(kind: str, dtype: type, axes_given: bool) -> None:
    model = reduction(kind, dtype, axes_given=axes_given)
    feeds = {"x": np.zeros((2, 0, 4), dtype), "axes": np.array([1])}
    feeds = {value.name: feeds[value.name] for value in model.graph.input}
    (expected,) = ReferenceEvaluator(model).run(None, feeds)
    simple = simplify(model)
    assert set(kinds(simple)) <= {"Constant", "Identity"}
    (found,) = ReferenceEvaluator(simple).run(None, feeds)
    assert found.dtype == np.dtype(dtype)
    assert found.shape == (2, 1, 4)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("LogSum", -np.inf), ("LogSumExp", -np.inf), ("Mean", np.nan), ("Max", -np.inf)],
)
def test_reductions_of_nothing_that_are_no_numbers(kind: str, expected: float) -> None:
    simple = simplify(reduction(f"Reduce{kind}", np.float32, axes_given=False))
    feeds = {"x": np.zeros((2, 0, 4), np.float32), "axes": np.array([1])}
    (found,) = ReferenceEvaluator(simple).run(None, feeds)
    np.testing.assert_array_equal(found, np.full((2, 1, 4), expected, np.float32))


def test_no_operator_reads_or_makes_what_has_no_elements() -> None:
    graph = graph_from_onnx(interface_model("no elements"))
    for op in graph.operators:
        assert all(0 not in graph.tensors[tensor].shape for tensor in (*op.inputs, *op.outputs))
    assert sorted(op.kind for op in graph.operators) == ["abs", "subtract"]


def test_a_split_keeps_the_ranges_that_have_elements() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> m (float[2, 5] x)
        => (float[2, 2] a, float[2, 0] b, float[2, 3] c) <int64[3] parts = {2, 0, 3}> {
        y = Neg(x)
        a, b, c = Split <axis = -1> (y, parts)
    }"""
    model = onnx.parser.parse_model(text)
    simple = simplify(model)
    (split,) = (node for node in simple.graph.node if node.op_type == "Split")
    assert len(split.output) == 2
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    outputs = (ReferenceEvaluator(m).run(None, {"x": x}) for m in (model, simple))
    for found, expected in zip(*outputs, strict=True):
        np.testing.assert_array_equal(found, expected)
