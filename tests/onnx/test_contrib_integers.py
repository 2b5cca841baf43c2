"""Products of integers that ONNX Runtime fused, and weights of a few bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.contrib_sketch import (
    DOMAIN,
    MASK,
    RNG,
    D,
    H,
    N,
    X,
    f32,
    i8,
    ints,
    normal,
    one,
    packed,
    require_same,
)
from tests.onnx_sketch import run_on
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.simplify import simplify

pytest.importorskip("onnxruntime")


def near(*shape: int) -> Array:
    """Weights of seven bits, whose products no processor adds up wrongly."""
    return (ints(127, *shape) - 63).astype(np.int8)


def quantised(*shape: int) -> list[Any]:
    return [ints(256, *shape, dtype=np.uint8), np.float32(0.03), np.uint8(120)]


INTEGERS: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "dynamic": ("DynamicQuantizeMatMul", [X, near(8, 3), np.float32(0.02)], {}),
    "dynamic by columns": (
        "DynamicQuantizeMatMul",
        [X, near(8, 3), f32([0.1, 0.02, 0.3]), i8([1, 0, 3]), normal(3)],
        {},
    ),
    "unsigned": (
        "DynamicQuantizeMatMul",
        [X, ints(128, 8, 3, dtype=np.uint8), np.float32(0.02), np.uint8(60)],
        {},
    ),
    "to floats": (
        "MatMulIntegerToFloat",
        [ints(256, 2, 5, 8, dtype=np.uint8), near(8, 3), np.float32(0.1), np.float32(0.2)],
        {},
    ),
    "to floats, all inputs": (
        "MatMulIntegerToFloat",
        [
            *(ints(256, 5, 8, dtype=np.uint8), near(8, 3), f32([0.1])),
            *(f32([1, 2, 3]), np.uint8(3), i8([1, 2, 0]), normal(3)),
        ],
        {},
    ),
    "attention": (
        "QAttention",
        [
            *(ints(256, 2, 5, 6, dtype=np.uint8), near(6, 3 * D), normal(3 * D)),
            *(np.float32(0.01), np.float32(0.02), MASK, np.uint8(128), np.int8(0)),
        ],
        {"num_heads": N},
    ),
    "attention that remembers": (
        "QAttention",
        [
            *(ints(256, 2, 5, 6, dtype=np.uint8), near(6, 3 * D), normal(3 * D)),
            *(np.float32(0.01), RNG.uniform(0.01, 0.02, 3 * D).astype(np.float32), None),
            *(np.uint8(128), np.zeros(3 * D, np.int8), normal(2, 2, N, 3, H)),
        ],
        {"num_heads": N, "unidirectional": 1},
    ),
}


@pytest.mark.parametrize("case", INTEGERS)
def test_products_of_integers_in_floats(case: str) -> None:
    kind, inputs, attributes = INTEGERS[case]
    outputs = 2 if "remembers" in case else 1
    require_same(*one(kind, inputs, outputs, **attributes), limit=1e-5)


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes"),
    [
        (
            "QLinearAveragePool",
            [*quantised(1, 6, 6, 3), np.float32(0.04), np.uint8(130)],
            {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
        ),
        (
            "QLinearGlobalAveragePool",
            [*quantised(1, 6, 6, 3), np.float32(0.02), np.uint8(130)],
            {},
        ),
        (
            "QLinearConv",
            [
                *(*quantised(1, 6, 6, 3), near(4, 3, 3, 3), np.float32(0.1), np.int8(0)),
                *(np.float32(2), np.uint8(99), ints(999, 4)),
            ],
            {"pads": [1, 1, 1, 1]},
        ),
    ],
)
@pytest.mark.parametrize("last", [0, 1])
def test_eight_bits_with_channels_last(
    kind: str, inputs: list[Any], attributes: dict[str, Any], last: int
) -> None:
    if not last:
        inputs = [inputs[0].transpose(0, 3, 1, 2), *inputs[1:]]
    model, feeds = one(kind, inputs, channels_last=last, **attributes)
    (result,), (expected,) = run_on(simplify(model), feeds), run_on(model, feeds)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    assert np.abs(result.astype(int) - expected).max() <= (kind != "QLinearConv")
    assert len(np.unique(result)) > 2


def test_channels_last_after_operators_without_shapes() -> None:
    """As of files whose batch is open: nothing says how many axes there are in between."""
    image, scale, zero = quantised(1, 4, 4, 3)
    model, feeds = one("QLinearAdd", [image, scale, zero, image, scale, zero, scale, zero])
    node = helper.make_node(
        "QLinearGlobalAveragePool",
        ["o0", "i1", "i2", "i6", "i7"],
        ["o1"],
        domain=DOMAIN,
        channels_last=1,
    )
    model.graph.node.append(node)
    model.graph.output[0].name = "o1"
    (result,), (expected,) = run_on(simplify(model), feeds), run_on(model, feeds)
    assert result.shape == expected.shape == (1, 1, 1, 3)
    assert np.abs(result.astype(int) - expected).max() <= 1


@pytest.mark.parametrize("extra", ["none", "zeros", "zeros and a bias", "zeros with fractions"])
@pytest.mark.parametrize(("bits", "rows", "block"), [(4, 64, 32), (4, 40, 16), (8, 64, 32)])
def test_packed_weights(bits: int, rows: int, block: int, extra: str) -> None:
    (weight, scales, zeros), attributes = packed(bits, rows, 6, block)
    if (bits, extra) == (8, "zeros with fractions"):
        pytest.skip("ONNX Runtime has none of these")
    inputs: list[Any] = [normal(2, 3, rows), weight, scales]
    if extra == "zeros with fractions":
        inputs.append(RNG.uniform(0, 2**bits, scales.shape).astype(np.float32))
    elif extra != "none":
        inputs.append(zeros)
    if "bias" in extra:
        inputs += [None, normal(6)]
    simple = require_same(*one("MatMulNBits", inputs, **attributes))
    # The weights stay in bytes.
    counts = {w.data_type: np.prod(w.dims) for w in simple.graph.initializer}
    assert counts[onnx.TensorProto.UINT8] <= weight.size
    assert counts.get(onnx.TensorProto.FLOAT, 0) < rows * 6 / 4


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_rows_of_packed_weights(bits: int, zeros: bool) -> None:
    codes = ints(256, 9, 64 * bits // 8, dtype=np.uint8)
    scales = RNG.uniform(0.01, 0.1, (9, 2)).astype(np.float32)
    inputs = [ints(9, 2, 3, dtype=np.int64), codes, scales]
    if zeros:
        inputs.append(ints(256, 9, 2 * bits // 8, dtype=np.uint8))
    attributes: dict[str, Any] = {
        "bits": bits,
        "block_size": 32,
        "quantize_axis": 1,
        "gather_axis": 0,
    }
    model, feeds = one("GatherBlockQuantized", inputs, **attributes)
    # The places are the second input.
    model.graph.node[0].input[:2] = ["i1", "i0"]
    simple = require_same(model, feeds)
    counts = {w.data_type: np.prod(w.dims) for w in simple.graph.initializer}
    assert counts.get(onnx.TensorProto.FLOAT, 0) <= scales.size
