"""Other batches of models of fixed shapes."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

from tests.refusals import refused
from tvm_ios import zoo
from tvm_ios.graph.units import form_units
from tvm_ios.models.load import load_graph, load_onnx
from tvm_ios.models.source import ModelSource
from tvm_ios.onnx.batch import BatchError, with_batch
from tvm_ios.onnx.graph import graph_from_onnx


@pytest.mark.parametrize("name", ["inception_block", "nasnet_cell", "several_outputs"])
def test_only_the_leading_extents_change(name: str) -> None:
    one = load_graph(name)
    many = form_units(graph_from_onnx(load_onnx(ModelSource(name, batch=3))))
    assert many.batch == 3
    assert [op.kind for op in many.operators] == [op.kind for op in one.operators]
    for before, after in zip(one.tensors, many.tensors, strict=True):
        if not before.constant:
            assert after.shape == (3 * before.shape[0], *before.shape[1:])


def test_the_given_model_stays() -> None:
    model = zoo.build("inception_block")
    before = model.SerializeToString(deterministic=True)
    with_batch(model, 2)
    assert model.SerializeToString(deterministic=True) == before


def model_of(*shapes: tuple[int, ...]) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, shape)
        for i, shape in enumerate(shapes)
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node("Add", [value.name for value in inputs], ["y"])
    return helper.make_model(helper.make_graph([node], "sum", inputs, [output]))


def test_what_has_no_batch_is_refused() -> None:
    with refused(BatchError, "[1, 2]"):
        with_batch(model_of((1, 4), (2, 4)), 3)
    with refused(BatchError, "sum", "no input with a leading extent"):
        with_batch(model_of((), ()), 3)


def test_a_scalar_beside_a_batch_stays() -> None:
    first, second = with_batch(model_of((1, 4), ()), 3).graph.input
    assert [e.dim_value for e in first.type.tensor_type.shape.dim] == [3, 4]
    assert not second.type.tensor_type.shape.dim
