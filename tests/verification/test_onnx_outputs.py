"""What an ONNX model computes by ONNX Runtime, and by ONNX's own evaluator."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from runtime_ext.verification import onnx_outputs
from runtime_ext.verification.expected import expected_outputs
from runtime_ext.verification.not_computed import NotComputed
from runtime_ext.verification.onnx_outputs import evaluated_outputs, named_by_model, runtime_outputs
from tests.onnx_sketch import Sketch
from tests.refusals import refused
from tvm_ios.contest.outputs import Verify
from tvm_ios.files.array_files import Array

X = np.array([[-1.0, 2.0]], np.float32)
Way = Callable[..., tuple[list[list[np.ndarray]], str]]
WAYS = pytest.mark.parametrize("way", [runtime_outputs, evaluated_outputs])


def negation(opset: int = 17) -> onnx.ModelProto:
    sketch = Sketch(1, 2, opset=opset)
    return sketch.model(sketch.op("Neg", "x"))


def unknown() -> onnx.ModelProto:
    model = negation()
    model.graph.node[0].op_type = "NoSuchOperator"
    return model


def tvm_outputs() -> list[list[np.ndarray]]:
    return [[np.zeros(1)]]


@pytest.fixture
def without_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_outputs, "find_spec", lambda _: None)


@WAYS
def test_outputs_are_those_of_the_operators(way: Way) -> None:
    pytest.importorskip("onnxruntime")
    outputs, source = way(negation(), [{"x": X}, {"x": 2 * X}])
    assert [[array.tolist() for array in sample] for sample in outputs] == [
        [(-X).tolist()],
        [(-2 * X).tolist()],
    ]
    assert source.startswith(("ONNX Runtime 1", "onnx.reference 1"))


@WAYS
def test_an_unknown_operator_is_not_computed(way: Way) -> None:
    pytest.importorskip("onnxruntime")
    with refused(NotComputed, "the model"):
        way(unknown(), [{"x": X}])


def contrib(kind: str, x: Array, *weights: Array, **attributes: Any) -> onnx.ModelProto:
    """A model of one of ONNX Runtime's own operators."""
    names = [f"w{place}" for place, _ in enumerate(weights)]
    node = helper.make_node(kind, ["x", *names], ["y"], domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, n) for w, n in zip(weights, names, strict=True)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_the_evaluator_says_that_it_lacks_operators_of_onnx_runtime() -> None:
    """They are not written out for it: then a wrong rewrite would judge itself."""
    model = contrib("BiasGelu", X, np.array([1, 2], np.float32))
    with refused(NotComputed, "onnx.reference", "model"):
        evaluated_outputs(model, [{"x": X}])


def test_data_beside_weights_of_four_bits_are_not_rounded() -> None:
    """A file may give leave to, and ONNX Runtime takes it."""
    pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, 64)).astype(np.float32)
    codes = rng.integers(0, 16, (8, 64))
    packed = (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8).reshape(8, 2, 16)
    scales = rng.uniform(0.1, 1, (8, 2)).astype(np.float32)
    model = contrib(
        "MatMulNBits",
        x,
        packed,
        scales.reshape(-1),
        **{"K": 64, "N": 8, "bits": 4, "block_size": 32, "accuracy_level": 4},
    )
    weight = (codes - 8) * np.repeat(scales, 32, axis=1)
    (outputs,), _ = runtime_outputs(model, [{"x": x}])
    np.testing.assert_allclose(outputs[0], x @ weight.T, rtol=1e-4, atol=1e-4)


def test_a_newer_format_is_read() -> None:
    pytest.importorskip("onnxruntime")
    model = negation()
    model.ir_version = onnx.IR_VERSION
    assert runtime_outputs(model, [{"x": X}])[0][0][0].tolist() == (-X).tolist()
    assert model.ir_version == onnx.IR_VERSION


def test_the_evaluator_is_ended_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_outputs, "EVALUATOR_SECONDS", 0.05)
    begin = time.monotonic()
    with refused(NotComputed, "onnx.reference", "more than 0.05 s"):
        evaluated_outputs(negation(), [{"x": X}])
    assert time.monotonic() - begin < 5


@pytest.mark.usefixtures("without_runtime")
def test_without_onnx_runtime_the_evaluator_is_asked() -> None:
    expected = expected_outputs(negation(), [{"x": X}], tvm_outputs, Verify.onnx)
    assert expected.source == f"onnx.reference {onnx.__version__}"
    assert expected.outputs[0][0].tolist() == (-X).tolist()


@pytest.mark.usefixtures("without_runtime")
def test_else_tvm_is_and_it_is_said_why(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = expected_outputs(unknown(), [{"x": X}], tvm_outputs, Verify.onnx)
    assert expected.outputs[0][0].tolist() == [0]
    name = f"onnx.reference {onnx.__version__}"
    assert expected.source == (
        f"TVM's own build (ONNX Runtime is not installed; {name} does not run the model)"
    )
    monkeypatch.setattr(onnx_outputs, "EVALUATOR_SECONDS", 0.05)
    late = expected_outputs(negation(), [{"x": X}], tvm_outputs, Verify.onnx)
    assert str(late.source).endswith(f"; {name} takes more than 0.05 s)")


def test_one_may_ask_tvm_or_nobody() -> None:
    assert expected_outputs(negation(), [{"x": X}], tvm_outputs, Verify.tvm).source == (
        "TVM's own build"
    )
    nothing = expected_outputs(negation(), [{"x": X}], tvm_outputs, Verify.off)
    assert (nothing.outputs, nothing.source) == ([()], None)


def test_a_model_of_tvm_has_no_other_framework() -> None:
    assert expected_outputs(None, [{"x": X}], tvm_outputs, Verify.onnx).source == "TVM's own build"


def test_inputs_have_the_names_and_types_of_the_model() -> None:
    model = negation()
    model.graph.input.append(helper.make_tensor_value_info("rest", TensorProto.INT64, [2]))
    feeds = named_by_model(model, {"x": X.astype(np.float16)})
    assert {name: (array.dtype, array.shape) for name, array in feeds.items()} == {
        "x": (np.float32, (1, 2)),
        "rest": (np.int64, (2,)),
    }
    ordered = named_by_model(model, {"rest": np.ones(2, np.int64), "x": X})
    assert [*ordered] == ["x", "rest"]
    with refused(NotComputed, "names"):
        named_by_model(model, {"var_x": X})
