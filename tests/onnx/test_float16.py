"""Models of float16 are computed in float32, and read and return what they did."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from runtime_ext.verification.reference import own_error
from tests.onnx_sketch import kinds
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.simplify import simplify

HEAD = '<ir_version: 9, opset_import: ["": 20]> m'
MODELS = {
    "inside": f"""{HEAD} (float16[2, 3] x) => (float16[2, 3] y)
        <float[3] c = {{0.5, 3.0, -1.0}}> {{
        w = Cast<to = 10>(c)  a = Mul(x, w)  b = Tanh(a)  y = Add(b, x) }}""",
    "returned twice": f"""{HEAD} (float16[2, 3] x) => (float16[2, 3] y, float16[2, 3] z)
        {{ y = Exp(x)  z = Neg(y) }}""",
    "an input": f"""{HEAD} (float16[2, 3] x, float[2, 3] v) => (float16[2, 3] y, float[2, 3] z)
        {{ y = Identity(x)  w = Cast<to = 1>(x)  z = Add(v, w) }}""",
    "integers": f"""{HEAD} (uint8[2, 3] u) => (float[2, 3] y)
        {{ a = Cast<to = 10>(u)  b = Sqrt(a)  y = Cast<to = 1>(b) }}""",
    "rounded": f"""{HEAD} (float[2, 3] v) => (float[2, 3] y)
        {{ a = Cast<to = 10>(v)  y = Cast<to = 1>(a) }}""",
    "rounded and returned": f"""{HEAD} (float[2, 3] v) => (float16[2, 3] y, float16[2, 3] z)
        {{ y = Cast<to = 10>(v)  z = Abs(y) }}""",
    "truncated": f"""{HEAD} (float16[2, 3] x) => (int64[2, 3] y)
        <float c = {{10.0}}> {{ w = Cast<to = 10>(c)  a = Mul(x, w)  y = Cast<to = 7>(a) }}""",
    "a constant": f"""{HEAD} (float16[2, 3] x) => (float16[2] y, float16[2, 3] z)
        <float[2] c = {{1.0, 2.0}}> {{ y = Cast<to = 10>(c)  z = Neg(x) }}""",
}


def feeds_of(model: onnx.ModelProto) -> dict[str, Array]:
    random = np.random.default_rng(0)
    drawn: dict[str, Array] = {}
    for value in model.graph.input:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        drawn[value.name] = (random.standard_normal((2, 3)) * 3).astype(dtype)
    return drawn


@pytest.mark.parametrize("name", MODELS)
def test_computed_in_float32(name: str) -> None:
    model = onnx.parser.parse_model(MODELS[name])
    simple = simplify(model)
    assert [(v.name, v.type.tensor_type.elem_type) for v in simple.graph.output] == [
        (v.name, v.type.tensor_type.elem_type) for v in model.graph.output
    ]
    feeds = feeds_of(model)
    results = [ReferenceEvaluator(each).run(None, feeds) for each in (model, simple)]
    for want, got in zip(*results, strict=True):
        assert got.dtype == want.dtype
        exact = name.startswith(("rounded", "truncated", "an input", "a constant"))
        np.testing.assert_allclose(got, want, rtol=0 if exact else 2e-3)


def test_only_casts_read_or_write_float16() -> None:
    simple = simplify(onnx.parser.parse_model(MODELS["inside"]))
    assert kinds(simple) == ["Add", "Cast", "Cast", "Mul", "Tanh"]
    assert all(w.data_type == TensorProto.FLOAT for w in simple.graph.initializer)
    values = {v.name: v.type.tensor_type.elem_type for v in simple.graph.value_info}
    assert set(values.values()) == {TensorProto.FLOAT}


def test_no_intermediate_is_rounded() -> None:
    text = f"""{HEAD} (float16[1] x) => (float16[1] y)
        <float c = {{1.0}}> {{ one = Cast<to = 10>(c)  a = Add(x, one)  y = Sub(a, one) }}"""
    x = np.array([1e-4], np.float16)
    (found,) = ReferenceEvaluator(simplify(onnx.parser.parse_model(text))).run(None, {"x": x})
    np.testing.assert_allclose(found, x, rtol=1e-3)


def test_what_a_step_of_float16_changes_is_rounding() -> None:
    text = f"""{HEAD} (float16[4, 64] x) => (float[4, 4] y) {{
        t = Transpose<perm = [1, 0]>(x)  a = MatMul(x, t)  y = Cast<to = 1>(a) }}"""
    x = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float16)
    assert 1e-4 < own_error(onnx.parser.parse_model(text), {"x": x}) < 1e-2
