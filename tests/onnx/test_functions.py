"""Operators that TVM lacks or misreads become others that compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.onnx_sketch import Sketch, kinds, relative_error, run, run_on
from tvm_ios.onnx.simplify import simplify


def require_same(model: Any, kind: str) -> Any:
    simplified = simplify(model)
    assert kind not in kinds(simplified)
    assert relative_error(run(simplified), run(model)) < 1e-5
    return simplified


@pytest.mark.parametrize("attributes", [{}, {"alpha": 0.3}])
def test_celu(attributes: dict[str, float]) -> None:
    s = Sketch(2, 3)
    require_same(s.model(s.op("Celu", "x", **attributes)), "Celu")


def test_crop_and_pad() -> None:
    s = Sketch(4, 9, opset=18)
    model = s.model(s.op("CenterCropPad", "x", s.const(np.array([7, 4]))))
    assert kinds(require_same(model, "CenterCropPad")) == ["Pad", "Slice"]


@pytest.mark.parametrize("kind", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
def test_losses(kind: str) -> None:
    s = Sketch(3, 5)
    simplified = simplify(s.model(s.op(kind, "x", s.const(np.array([1, 0, 4])), s.positive(5))))
    assert not {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"} & set(kinds(simplified))
    model = s.model(s.nodes[-1].output[0])
    assert relative_error(run(simplified), run(model)) < 1e-5


def test_attention_is_products_and_a_softmax() -> None:
    s = Sketch(1, 2, 4, 8, opset=23)
    read = [s.op("Mul", "x", s.const(factor)) for factor in (0.5, 0.25)]
    model = s.model(s.op("Attention", "x", *read, is_causal=1))
    simplified = simplify(model)
    assert kinds(simplified).count("MatMul") == 2
    assert kinds(simplified).count("Softmax") == 1
    assert relative_error(run(simplified), run(model)) < 1e-5


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_keeps_the_type_of_its_values(axis: int) -> None:
    s = Sketch(2, 3)
    # From -6 to 6 of 4: some count from the end, some are none of them.
    places = s.op("Cast", s.op("Mul", "x", s.const(3.0)), to=TensorProto.INT64)
    values = s.const([-0.5, 1.5])
    model = s.model(s.op("OneHot", places, s.const(np.array(4)), values, axis=axis))
    simplified = require_same(model, "OneHot")
    assert simplified.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT


def test_a_matrix_like_another_is_a_constant() -> None:
    s = Sketch(3, 4)
    model = s.model(s.op("Add", "x", s.op("EyeLike", "x", k=1)))
    assert kinds(require_same(model, "EyeLike")) == ["Add"]


def test_an_output_of_a_known_shape_is_no_constant_node() -> None:
    """TVM's importer reads no output from one."""
    s = Sketch(3, 4)
    model = s.model(s.op("Relu", "x"))
    shape = helper.make_tensor_value_info("shape", TensorProto.INT64, (2,))
    model.graph.node.append(helper.make_node("Shape", ["x"], ["shape"]))
    model.graph.output.append(shape)
    simplified = simplify(model)
    assert kinds(simplified) == ["Identity", "Relu"]
    feeds = {"x": np.ones((3, 4), np.float32)}
    assert run_on(simplified, feeds)[1].tolist() == [3, 4]
