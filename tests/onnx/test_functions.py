"""Operators that TVM lacks or misreads become others that compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tests.onnx_sketch import Sketch, kinds, relative_error, run, run_on, simplify_checked
from tests.refusals import refused
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.rewrites.plainly import registry
from tvm_ios.onnx.simplify import simplify


def require_same(model: Any, kind: str) -> Any:
    simplified = simplify_checked(model)
    assert kind not in kinds(simplified)
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
    simplified = simplify_checked(model)
    assert kinds(simplified).count("MatMul") == 2
    assert kinds(simplified).count("Softmax") == 1


@pytest.mark.parametrize("mask", [None, "bool", "float"])
@pytest.mark.parametrize("causal", [0, 1])
def test_attention_with_omitted_inputs(causal: int, mask: str | None) -> None:
    """The lengths of what is not padding come after inputs that are left out."""
    s = Sketch(2, 3, 4, 8, opset=24)
    keys = [s.normal(2, 3, 6, 8), s.normal(2, 3, 6, 8)]
    masks = {None: "", "bool": s.const(s.rng.random((2, 1, 4, 6)) < 0.8), "float": s.normal(4, 6)}
    inputs = ["x", *keys, masks[mask], "", "", s.const(np.array([5, 6]))]
    model = s.model(s.op("Attention", *inputs, is_causal=causal))
    require_reference(model, "Attention")


@pytest.mark.parametrize("rotated", [0, 4])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("placed", [False, True])
def test_rotary_embedding(placed: bool, interleaved: int, rotated: int) -> None:
    s = Sketch(2, 3, 5, 8, opset=23)
    angles = s.rng.uniform(
        0, 3, (9 if placed else 2, *(() if placed else (5,)), (rotated or 8) // 2)
    )
    inputs = ["x", s.const(np.cos(angles)), s.const(np.sin(angles))]
    if placed:
        inputs.append(s.const(s.rng.integers(0, 9, (2, 5))))
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": rotated}
    model = s.model(s.op("RotaryEmbedding", *inputs, **attributes))
    require_reference(model, "RotaryEmbedding")


@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_causal_convolution_with_a_state(activation: str, state: bool) -> None:
    s = Sketch(2, 3, 5, opset=27)
    inputs = ["x", s.normal(3, 1, 4), s.normal(3)]
    if state:
        inputs.append(s.normal(2, 3, 3))
    outputs = s.op("CausalConvWithState", *inputs, outputs=2, activation=activation)
    require_reference(s.model(*outputs), "CausalConvWithState")


@pytest.mark.parametrize("rule", ["linear", "gated", "gated_delta"])
@pytest.mark.parametrize("state", [False, True])
def test_linear_attention_is_unrolled(state: bool, rule: str) -> None:
    """A ``Scan`` over three places, whose heads may share keys."""
    s = Sketch(2, 3, 16, opset=27)
    shared = s.normal(2, 3, 8)
    inputs = ["x", shared, s.op("Tanh", shared), s.normal(2, 2, 4, 4) if state else ""]
    if rule != "linear":
        inputs.append(s.const(-s.rng.random((2, 3, 8))))
    if rule == "gated_delta":
        inputs.append(s.const(s.rng.random((2, 3, 2))))
    attributes = {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": rule}
    outputs = s.op("LinearAttention", *inputs, outputs=2, **attributes)
    assert "Scan" not in kinds(require_reference(s.model(*outputs), "LinearAttention"))


def require_reference(model: Any, kind: str) -> Any:
    """Other operators make what ONNX's reference says; newer ones ONNX Runtime lacks."""
    simplified = simplify(model)
    assert kind not in kinds(simplified)
    extents = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": np.random.default_rng(1).standard_normal(extents).astype(np.float32)}
    expected = ReferenceEvaluator(model).run(None, feeds)
    assert relative_error(ReferenceEvaluator(simplified).run(None, feeds), expected) < 1e-5
    return simplified


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


@pytest.mark.parametrize(("sizes", "opset"), [(None, 18), ([2, 3], 18), ([4, 1], 11)])
def test_parts_of_a_constant_are_constants(sizes: list[int] | None, opset: int) -> None:
    s = Sketch(2, 5, opset=opset)
    whole = s.const(np.arange(5.0))
    if opset < 13:
        parts = s.op("Split", whole, outputs=2, axis=0, split=sizes)
    elif sizes is None:
        parts = s.op("Split", whole, outputs=2, axis=0, num_outputs=2)
    else:
        parts = s.op("Split", whole, s.const(np.array(sizes)), outputs=2, axis=0)
    # What is made of the parts is a constant, too.
    row = s.op("Concat", *(s.op("Neg", part) for part in reversed(parts)), axis=0)
    assert kinds(require_same(s.model(s.op("Add", "x", row)), "Split")) == ["Add"]


def more_inputs(s: Sketch, *shape: int, name: str, kind: int = TensorProto.FLOAT) -> str:
    s.inputs.append(helper.make_tensor_value_info(name, kind, shape))
    return name


def unpooled(shape: tuple[int, ...] | None, **attributes: Any) -> Any:
    s = Sketch(1, 2, 2, 2)
    places = more_inputs(s, 1, 2, 2, 2, name="places", kind=TensorProto.INT64)
    size = () if shape is None else (s.const(np.array(shape)),)
    return s.model(
        s.op("MaxUnpool", "x", places, *size, kernel_shape=[2, 2], strides=[2, 2], **attributes)
    )


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [(None, {}), ((1, 2, 4, 4), {}), (None, {"pads": [0, 0, 1, 0]})],
    ids=str,
)
def test_pixels_return_to_their_places(
    shape: tuple[int, ...] | None, attributes: dict[str, Any]
) -> None:
    model = unpooled(shape, **attributes)
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((1, 2, 2, 2), dtype=np.float32),
        "places": rng.permutation(24)[:8].reshape(1, 2, 2, 2),
    }
    simplify_checked(model, feeds, within=0)


def test_pixels_that_would_be_counted_otherwise_are_refused() -> None:
    with refused(GraphError, "MaxUnpool", "[1, 2, 4, 4]", "output_shape"):
        simplify(unpooled((1, 2, 5, 5)))


def test_axes_may_be_one_number() -> None:
    """PyTorch writes it for attention with groups."""
    s = Sketch(3, 4)
    model = s.model(s.op("Relu", s.op("Unsqueeze", "x", s.const(np.array(1)))))
    simple = simplify_checked(model, within=0)
    axes = {w.name: list(w.dims) for w in simple.graph.initializer}
    assert [axes[node.input[1]] for node in simple.graph.node if len(node.input) > 1] == [[1]]


def test_an_operator_has_one_writer() -> None:
    tables = [registry.MISREAD, registry.ARITHMETIC, registry.DECLARED, registry.FOURIER]
    tables += [registry.NORMALISATIONS, registry.PLACES, registry.WINDOWS]
    names = [name for table in tables for name in table]
    assert len(names) == len({*names})
