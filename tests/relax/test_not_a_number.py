"""NaN passes through our kernels as it does in NumPy, ONNX and PyTorch, where TVM's drop it."""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np
import pytest
from onnx import helper, parser
from tvm import relax

from relay_passes.relax.importer import import_onnx
from tests.relax.relax_sketch import (
    LANES,
    RelaxSketch,
    module_of,
    operators,
    sequential_outputs,
)
from tvm_ios.files.array_files import Array

op = relax.op
NAN, INF = np.nan, np.inf
#: Whole vectors and a rest, in images whose channels are innermost between units.
SHAPE = (1, 19, 4, 4)
SIX, ZERO = relax.const(6.0), relax.const(0.0)

Call = Callable[[RelaxSketch, Any, Any], Any]


def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


#: Operators of two tensors, and what they are in NumPy.
OPERATORS: list[tuple[Call, Callable[[Array, Array], Array]]] = [
    (lambda s, x, y: op.nn.relu(x), lambda x, y: np.maximum(x, 0)),
    (lambda s, x, y: op.clip(x, 0, 6), lambda x, y: np.clip(x, 0, 6)),
    (lambda s, x, y: op.maximum(x, ZERO), lambda x, y: np.maximum(x, 0)),
    (lambda s, x, y: op.maximum(ZERO, x), lambda x, y: np.maximum(x, 0)),
    (lambda s, x, y: op.minimum(x, SIX), lambda x, y: np.minimum(x, 6)),
    (
        lambda s, x, y: op.minimum(s.emit(op.maximum(y, ZERO)), SIX),
        lambda x, y: np.clip(y, 0, 6),
    ),
    (lambda s, x, y: op.maximum(x, y), lambda x, y: np.maximum(x, y)),
    (lambda s, x, y: op.minimum(y, x), lambda x, y: np.minimum(x, y)),
    (lambda s, x, y: op.nn.leakyrelu(x, 0.1), lambda x, y: np.where(x < 0, 0.1 * x, x)),
    (lambda s, x, y: op.sigmoid(x), lambda x, y: 1 / (1 + np.exp(-x))),
    (lambda s, x, y: op.tanh(x), lambda x, y: np.tanh(x)),
    (lambda s, x, y: op.exp(x), lambda x, y: np.exp(x)),
    (lambda s, x, y: op.erf(x), lambda x, y: np.vectorize(erf)(x)),
    (lambda s, x, y: op.abs(x), lambda x, y: np.abs(x)),
    (lambda s, x, y: op.nn.silu(x), lambda x, y: x / (1 + np.exp(-x))),
    (lambda s, x, y: op.sqrt(x), lambda x, y: np.sqrt(x)),
    (lambda s, x, y: op.max(x, axis=[1]), lambda x, y: x.max(1)),
    (lambda s, x, y: op.min(x, axis=[2, 3]), lambda x, y: x.min((2, 3))),
    (lambda s, x, y: op.mean(x, axis=[2, 3]), lambda x, y: x.mean((2, 3))),
    (lambda s, x, y: op.nn.softmax(x, axis=1), lambda x, y: softmax(x, 1)),
    (lambda s, x, y: op.nn.softmax(y, axis=3), lambda x, y: softmax(y, 3)),
]


def numbers(seed: int) -> Array:
    """Normal numbers, with some NaN and infinities among them."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(SHAPE).astype(np.float32)
    for special in (NAN, NAN, INF, -INF):
        values[rng.random(SHAPE) < 0.1] = special
    return values


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_operators() -> None:
    def body(s: RelaxSketch, x: Any, y: Any) -> Any:
        return tuple(s.emit(call(s, x, y)) for call, _ in OPERATORS)

    inputs = [numbers(0), numbers(1)]
    outputs = sequential_outputs(module_of([SHAPE, SHAPE], body), inputs, LANES)
    for place, (output, (_, expected)) in enumerate(zip(outputs, OPERATORS, strict=True)):
        reference = expected(*inputs)
        assert np.isnan(reference).any()
        np.testing.assert_allclose(output, reference, 1e-5, 1e-6, err_msg=f"operator {place}")


def test_what_fuses_into_a_convolution() -> None:
    def body(s: RelaxSketch, x: Any) -> Any:
        plain = s.conv(x, 17)
        return (
            s.emit(op.clip(s.conv(x, 17), -0.5, 0.5)),
            s.emit(op.nn.relu(s.conv(x, 5, (1, 1)))),
            plain,
        )

    image = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    image[0, 3, 1, 2] = NAN
    clipped, activated, plain = sequential_outputs(module_of([SHAPE], body), [image], LANES)
    # Every window that sees the pixel.
    assert np.array_equal(np.isnan(clipped), np.isnan(plain))
    assert np.isnan(plain[0, :, 1, 2]).all()
    assert np.isfinite(clipped).any()
    assert np.array_equal(np.isnan(activated[0, 0]), np.isnan(image[0].sum(0)))


@pytest.mark.parametrize("to", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_floats_without_an_integer_are_the_least_one(dtype: str, to: str) -> None:
    """As on x86: of 32 bits, or of 64, of which narrower types are the last bits."""
    wide = "int64" if to in ("uint32", "int64") else "int32"
    least, width = np.iinfo(wide).min, np.iinfo(wide).bits
    numbers = np.array([0, 1.5, -1.5, 255.9, -300, 65504, NAN, INF, -INF], dtype)
    beyond = 2.0 ** (width - 1)
    if dtype == "float32":
        ends = [beyond, np.nextafter(np.float32(beyond), np.float32(0)), -beyond, -2 * beyond]
        numbers = np.concatenate([numbers, np.float32(ends)])
    kinds = (f"{t}[{len(numbers)}]" for t in (dtype.replace("float32", "float"), to))
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 13]> drawn ({next(kinds)} x) => ({next(kinds)} y)
        {{ y = Cast <to = {helper.np_dtype_to_tensor_dtype(np.dtype(to))}> (x) }}
    """)
    module = import_onnx(model)
    assert operators(module) == ["relax.astype"]
    inside = (numbers >= -beyond) & (numbers < beyond)
    whole = np.where(inside, numbers, 0).astype(wide)
    expected = np.where(inside, whole, least).astype(wide).astype(to)
    (ours,) = sequential_outputs(module, [numbers])
    assert ours.dtype == to
    assert ours.tolist() == expected.tolist()
