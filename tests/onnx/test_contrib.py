"""Operators of ONNX Runtime's own, written in those of ONNX, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.onnx_sketch import kinds, run_on
from tests.refusals import refused
from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.simplify import simplify

pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(0)
DOMAIN = "com.microsoft"


def normal(*shape: int, scale: float = 1.0) -> Array:
    return (scale * RNG.standard_normal(shape)).astype(np.float32)


def f32(numbers: Sequence[float]) -> Array:
    return np.array(numbers, np.float32)


def i8(numbers: Sequence[int]) -> Array:
    return np.array(numbers, np.int8)


def ints(high: int, *shape: int, dtype: type = np.int32) -> Array:
    return RNG.integers(0, high, shape).astype(dtype)


def one(
    kind: str,
    inputs: list[Any],
    outputs: int | list[bool] = 1,
    *,
    variable: int = 1,
    opset: int = 17,
    domain: str = DOMAIN,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A model of one operator, and what it is fed: its first inputs; the others are constants."""
    names = ["" if value is None else f"i{n}" for n, value in enumerate(inputs)]
    there = [True] * outputs if isinstance(outputs, int) else outputs
    made = [f"o{n}" if is_there else "" for n, is_there in enumerate(there)]
    node = helper.make_node(kind, names, made, "one", domain=domain, **attributes)
    arrays = {n: np.asarray(v) for n, v in zip(names, inputs, strict=True) if v is not None}
    fed = [name for name in names[:variable] if name]

    def output(name: str) -> Any:
        if kind == "MultiHeadAttention":  # of whose scores ONNX Runtime infers no type
            return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        return onnx.ValueInfoProto(name=name)

    graph = helper.make_graph(
        [node],
        "one",
        [
            helper.make_tensor_value_info(
                n, helper.np_dtype_to_tensor_dtype(arrays[n].dtype), arrays[n].shape
            )
            for n in fed
        ],
        [output(name) for name in made if name],
        [numpy_helper.from_array(a, n) for n, a in arrays.items() if n not in fed],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), {
        name: arrays[name] for name in fed
    }


def require_same(model: onnx.ModelProto, feeds: dict[str, Any], limit: float = 1e-5) -> Any:
    """Require that the simplified model has operators of ONNX alone, and the same results."""
    simple = simplify(model)
    assert all(node.domain in ("", "ai.onnx") for node in simple.graph.node), kinds(simple)
    results, expected = run_on(simple, feeds), run_on(model, feeds)
    for result, right in zip(results, expected, strict=True):
        assert (result.shape, result.dtype) == (right.shape, right.dtype)
        wide, largest = right.astype(np.float64), np.abs(right.astype(np.float64)).max()
        assert largest > 0
        assert np.abs(result - wide).max() <= limit * largest
    return simple


X = normal(2, 5, 8)
FUSED: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "Gelu": ("Gelu", [X], {}),
    "BiasGelu": ("BiasGelu", [X, normal(8)], {}),
    "FastGelu": ("FastGelu", [X], {}),
    "FastGelu of a sum": ("FastGelu", [X, normal(8)], {}),
    "QuickGelu": ("QuickGelu", [X], {}),
    "QuickGelu, its own alpha": ("QuickGelu", [X], {"alpha": 1.0}),
    "FusedMatMul": ("FusedMatMul", [X, normal(8, 3)], {"alpha": 0.25}),
    "FusedMatMul, transposed": (
        "FusedMatMul",
        [normal(2, 3, 7, 5), normal(2, 3, 4, 7)],
        {"transA": 1, "transB": 1},
    ),
    "FusedMatMul, the batch inside": (
        "FusedMatMul",
        [normal(5, 2, 3, 7), normal(7, 2, 3, 4)],
        {"transBatchA": 1, "transBatchB": 1},
    ),
    "FusedMatMul, the batch inside, transposed": (
        "FusedMatMul",
        [normal(7, 2, 3, 5), normal(2, 3, 7, 4)],
        {"transBatchA": 1, "transA": 1},
    ),
    "FusedMatMul of a row": ("FusedMatMul", [normal(8), normal(8, 3)], {"transA": 1}),
    "TransposeMatMul": ("TransposeMatMul", [X, normal(3, 8)], {"transB": 1}),
    "FusedGemm": (
        "FusedGemm",
        [normal(6, 3), normal(5, 6), normal(5)],
        {
            **{"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0},
            **{"activation": "LeakyRelu", "activation_alpha": 0.3},
        },
    ),
    "FusedGemm, no bias": (
        "FusedGemm",
        [normal(3, 6), normal(6, 5)],
        {"activation": "HardSigmoid", "activation_alpha": 0.3, "activation_beta": 0.4},
    ),
    "FusedConv": (
        "FusedConv",
        [normal(1, 3, 6, 6), normal(4, 3, 3, 3), normal(4)],
        {"activation": "Relu", "pads": [1, 1, 1, 1], "strides": [2, 2]},
    ),
    "FusedConv of a sum": (
        "FusedConv",
        [normal(1, 3, 6, 6), normal(4, 3, 3, 3), normal(4), normal(1, 4, 4, 4)],
        {"activation": "Tanh"},
    ),
    "FusedConv, clipped": (
        "FusedConv",
        [normal(1, 4, 6, 6), normal(4, 2, 3, 3)],
        {"activation": "Clip", "activation_params": [-0.5, 1.5], "group": 2},
    ),
    "FusedConv, a small slope": (
        "FusedConv",
        [normal(1, 4, 6, 6), normal(4, 4, 1, 1)],
        {"activation": "LeakyRelu", "activation_params": [0.2]},
    ),
    "NhwcMaxPool": (
        "NhwcMaxPool",
        [ints(256, 1, 6, 6, 3, dtype=np.uint8)],
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
    ),
}


@pytest.mark.parametrize("case", FUSED)
@pytest.mark.parametrize("variable", [1, 2])
def test_fused_operators(case: str, variable: int) -> None:
    kind, inputs, attributes = FUSED[case]
    require_same(*one(kind, inputs, variable=variable, **attributes))


SKIPS: dict[str, tuple[str, list[Any], int | list[bool], dict[str, Any]]] = {
    "two": ("SkipLayerNormalization", [X, normal(2, 5, 8), normal(8)], 1, {}),
    "all inputs": (
        "SkipLayerNormalization",
        [X, normal(2, 5, 8), normal(8), normal(8), normal(8)],
        [True, False, False, True],
        {"epsilon": 1e-3},
    ),
    "broadcast": ("SkipLayerNormalization", [X, normal(5, 8), normal(8), normal(8)], 1, {}),
    "no beta": (
        "SkipLayerNormalization",
        [X, normal(1, 5, 8), normal(8), None, normal(8)],
        1,
        {"epsilon": 1e-5},
    ),
    "simplified": ("SkipSimplifiedLayerNormalization", [X, normal(2, 5, 8), normal(8)], 1, {}),
    "simplified, all": (
        "SkipSimplifiedLayerNormalization",
        [X, normal(2, 5, 8), normal(8), normal(8)],
        [True, False, False, True],
        {"epsilon": 1e-2},
    ),
}


@pytest.mark.parametrize("case", SKIPS)
def test_norms_of_sums(case: str) -> None:
    kind, inputs, outputs, attributes = SKIPS[case]
    simple = require_same(*one(kind, inputs, outputs, variable=2, **attributes))
    assert ("LayerNormalization" in kinds(simple)) == (kind == "SkipLayerNormalization")


@pytest.mark.parametrize("opset", [11, 13, 17])
@pytest.mark.parametrize("kind", ["LayerNormalization", "SimplifiedLayerNormalization"])
@pytest.mark.parametrize("axis", [-1, 1, -2])
def test_norms_in_the_domain_of_onnx(kind: str, axis: int, opset: int) -> None:
    """ONNX Runtime has them there in opsets that do not."""
    scale = normal(8) if axis == -1 else normal(5, 8)
    inputs = [X, scale, *([normal(*scale.shape)] if kind == "LayerNormalization" else [])]
    outputs = 3 if kind == "LayerNormalization" else 2
    require_same(*one(kind, inputs, outputs, domain="", opset=opset, axis=axis))


WORDS = ints(20, 2, 5)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
ROWS = [normal(20, 8), normal(9, 8), normal(2, 8), normal(8), normal(8)]


@pytest.mark.parametrize(
    ("inputs", "outputs", "attributes"),
    [
        ([WORDS, ints(2, 2, 5), *ROWS, MASK], 2, {}),
        ([WORDS, None, *ROWS[:2], None, *ROWS[3:]], 2, {"epsilon": 1e-3}),
        ([WORDS, ints(2, 2, 5), *ROWS, None, ints(9, 2, 5)], [True, False, True], {}),
        ([WORDS, ints(2, 2, 5), *ROWS, None, ints(9, 1, 5)], 2, {}),
    ],
    ids=["masked", "no segments", "places and sums", "places of all"],
)
def test_embeddings(inputs: list[Any], outputs: Any, attributes: dict[str, Any]) -> None:
    model, feeds = one("EmbedLayerNormalization", inputs, outputs, variable=2, **attributes)
    simple = simplify(model)
    for result, right in zip(run_on(simple, feeds), run_on(model, feeds), strict=True):
        assert (result.shape, result.dtype) == (right.shape, right.dtype)
        assert np.allclose(result, right, atol=1e-5)


N, H = 2, 4
D = N * H
QKV = [normal(2, 5, 6), normal(6, 3 * D, scale=0.5), normal(3 * D)]
LENGTHS = np.array([3, 5], np.int32)
ATTENTION: dict[str, tuple[str, list[Any], int | list[bool], dict[str, Any]]] = {
    "plain": ("Attention", QKV, 1, {}),
    "scaled, no bias": ("Attention", [*QKV[:2], None], 1, {"scale": 0.3}),
    "causal": ("Attention", QKV, 1, {"unidirectional": 1}),
    "lengths": ("Attention", [*QKV, LENGTHS], 1, {}),
    "ends and begins": ("Attention", [*QKV, np.array([3, 5, 1, 2], np.int32)], 1, {}),
    "words": ("Attention", [*QKV, MASK], 1, {"unidirectional": 1}),
    "pairs": ("Attention", [*QKV, 1 - ints(2, 2, 5, 5) * ints(2, 2, 5, 5)], 1, {}),
    "another filter": ("Attention", [*QKV, MASK], 1, {"mask_filter_value": -3.0}),
    "a bias of scores": ("Attention", [*QKV, MASK, None, normal(1, N, 5, 5)], 1, {}),
    "remembers": ("Attention", [*QKV, None, normal(2, 2, N, 3, H)], 2, {"unidirectional": 1}),
    "remembers words": (
        "Attention",
        [*QKV, 1 - ints(2, 2, 8) * ints(2, 2, 8), normal(2, 2, N, 3, H)],
        2,
        {},
    ),
    "begins to remember": ("Attention", QKV, 2, {"unidirectional": 1}),
    "other sizes": (
        "Attention",
        [QKV[0], normal(6, 8 + 8 + 12), normal(28)],
        1,
        {"qkv_hidden_sizes": [8, 8, 12]},
    ),
    "heads": ("MultiHeadAttention", [normal(2, 5, D), normal(2, 7, D), normal(2, 7, D)], 1, {}),
    "heads and biases": (
        "MultiHeadAttention",
        [normal(2, 5, D), normal(2, 7, D), normal(2, 7, 12), normal(2 * D + 12)],
        1,
        {"scale": 0.4},
    ),
    "heads, causal": (
        "MultiHeadAttention",
        [normal(2, 5, D), normal(2, 5, D), normal(2, 5, D), None, MASK],
        1,
        {"unidirectional": 1},
    ),
    "heads, lengths, bias of scores": (
        "MultiHeadAttention",
        [*(normal(2, 5, D) for _ in range(3)), None, LENGTHS, normal(2, 1, 5, 5)],
        1,
        {},
    ),
    "keys from before": (
        "MultiHeadAttention",
        [normal(2, 5, D), normal(2, N, 7, H), normal(2, N, 7, H), normal(3 * D)],
        1,
        {},
    ),
    "a cache": (
        "MultiHeadAttention",
        [
            *(normal(2, 2, D) for _ in range(3)),
            *(None, None, None, normal(2, N, 3, H), normal(2, N, 3, H)),
        ],
        3,
        {"unidirectional": 1},
    ),
    "scores": (
        "MultiHeadAttention",
        [*(normal(2, 5, D) for _ in range(3)), None, MASK],
        [True, False, False, True],
        {"mask_filter_value": -2.0},
    ),
}


@pytest.mark.parametrize("case", ATTENTION)
@pytest.mark.parametrize("variable", [1, 8])
def test_attention(case: str, variable: int) -> None:
    kind, inputs, outputs, attributes = ATTENTION[case]
    require_same(*one(kind, inputs, outputs, variable=variable, num_heads=N, **attributes))


@pytest.mark.parametrize("packed", [2, 3])
def test_packed_heads_are_those_apart(packed: int) -> None:
    """Which ONNX Runtime has on GPUs only."""
    query, *parts = (normal(2, 5, N, H) for _ in range(3))
    parts = parts if packed == 2 else [query, *parts]
    rows = [part.reshape(2, 5, D) for part in (query, *parts[packed - 2 :])]
    model, feeds = one("MultiHeadAttention", rows, num_heads=N)
    (right,) = run_on(model, feeds)
    both = [np.stack(parts, 3)] if packed == 3 else [rows[0], np.stack(parts, 3)]
    model, feeds = one("MultiHeadAttention", both, num_heads=N)
    assert np.allclose(run_on(simplify(model), feeds)[0], right, atol=1e-5)


ANGLES = RNG.uniform(0, 3, (16, H // 2)).astype(np.float32)
TABLES = [np.cos(ANGLES), np.sin(ANGLES)]
PLACES = ints(16, 2, 5, dtype=np.int64)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(
    ("source", "places", "tables", "attributes"),
    [
        (normal(2, 5, D), PLACES, TABLES, {}),
        (normal(2, N, 5, H), PLACES, TABLES, {}),
        (normal(2, 5, D), np.array([3]), TABLES, {}),
        (
            normal(2, 5, D),
            PLACES,
            [table[:, :1] for table in TABLES],
            {"num_heads": N, "rotary_embedding_dim": 2},
        ),
    ],
    ids=["rows", "heads", "an offset", "a part"],
)
def test_rotary_embedding(
    source: Array, places: Array, tables: list[Array], attributes: dict[str, Any], interleaved: int
) -> None:
    inputs = [source, places, *tables]
    require_same(*one("RotaryEmbedding", inputs, variable=2, interleaved=interleaved, **attributes))


WIDE = 16
WIDE_ANGLES = RNG.uniform(0, 3, (16, WIDE // 2)).astype(np.float32)
WIDE_TABLES = [np.cos(WIDE_ANGLES), np.sin(WIDE_ANGLES)]


def grouped(
    length: int, cached: int, ends: list[int], total: int, heads: int = 4, groups: int = 2
) -> list[Any]:
    batch = len(ends)
    return [
        normal(batch, length, heads * WIDE),
        normal(batch, length, groups * WIDE),
        normal(batch, length, groups * WIDE),
        *([normal(batch, groups, cached, WIDE) for _ in range(2)] if cached else [None, None]),
        np.array(ends, np.int32),
        np.array(total, np.int32),
    ]


GROUPED: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "a beginning": (grouped(5, 0, [4, 4], 5), {}),
    "a padded beginning": (grouped(5, 0, [2, 4], 5), {}),
    "packed": (
        [normal(2, 5, 8 * WIDE), None, None, *grouped(5, 0, [4, 4], 5)[3:]],
        {"scale": 0.3},
    ),
    "rotated": ([*grouped(5, 0, [4, 4], 5), *WIDE_TABLES], {"do_rotary": 1}),
    "rotated in pairs": (
        [*grouped(5, 0, [4, 4], 5), *WIDE_TABLES],
        {"do_rotary": 1, "rotary_interleaved": 1},
    ),
    "a window": (grouped(7, 0, [6, 6], 7), {"local_window_size": 2}),
    "capped": (grouped(5, 0, [4, 4], 5), {"softcap": 0.7}),
    "smooth": (grouped(5, 0, [4, 4], 5), {"smooth_softmax": 1}),
    "sinks": (
        [*grouped(5, 0, [4, 4], 5), None, None, None, None, normal(4)],
        {},
    ),
    "a bias of scores": (
        [*grouped(5, 0, [4, 4], 5), None, None, None, normal(2, 4, 5, 5)],
        {},
    ),
    "a step": ([*grouped(1, 6, [6], 7), *WIDE_TABLES], {"do_rotary": 1}),
    "a step after fewer than there are": (grouped(1, 6, [3], 7), {}),
    "a step in a buffer": ([*grouped(1, 8, [4], 5), *WIDE_TABLES], {"do_rotary": 1}),
    "steps of several lengths": ([*grouped(1, 6, [6, 3], 7), *WIDE_TABLES], {"do_rotary": 1}),
    "steps of several lengths, a window": (
        grouped(1, 6, [6, 3], 7),
        {"local_window_size": 2},
    ),
    "several at once": ([*grouped(3, 6, [8], 9), *WIDE_TABLES], {"do_rotary": 1}),
    "a beginning in a buffer": ([*grouped(5, 8, [4], 5), *WIDE_TABLES], {"do_rotary": 1}),
}


@pytest.mark.parametrize("case", GROUPED)
def test_grouped_attention(case: str) -> None:
    inputs, attributes = GROUPED[case]
    # The number of positions is known, how many of these each sequence has is not.
    model, feeds = one(
        "GroupQueryAttention", inputs, 3, variable=6, num_heads=4, kv_num_heads=2, **attributes
    )
    require_same(model, feeds)


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


def packed(bits: int, rows: int, columns: int, block: int) -> tuple[list[Any], dict[str, Any]]:
    """Weights, scales and zero points of ``MatMulNBits``, and its attributes."""
    blocks = -(-rows // block)
    weight = ints(256, columns, blocks, block * bits // 8, dtype=np.uint8)
    scales = RNG.uniform(0.01, 0.1, (columns, blocks)).astype(np.float32)
    zeros = ints(256, columns, -(-blocks * bits // 8), dtype=np.uint8)
    return [weight, scales, zeros], {"bits": bits, "K": rows, "N": columns, "block_size": block}


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
    attributes = {"bits": bits, "block_size": 32, "quantize_axis": 1, "gather_axis": 0}
    model, feeds = one("GatherBlockQuantized", inputs, **attributes)
    # The places are the second input.
    model.graph.node[0].input[:2] = ["i1", "i0"]
    simple = require_same(model, feeds)
    counts = {w.data_type: np.prod(w.dims) for w in simple.graph.initializer}
    assert counts.get(onnx.TensorProto.FLOAT, 0) <= scales.size


def test_lengths_that_follow_from_a_shape() -> None:
    """Which is what decoders write, and is known once constants are folded."""
    inputs = [*grouped(1, 6, [6], 7)[:5], ints(2, 1, 7, dtype=np.int64) | 1]
    model, feeds = one("GroupQueryAttention", inputs, 3, variable=6, num_heads=4, kv_num_heads=2)
    constants = [numpy_helper.from_array(np.array(n), k) for k, n in (("at", 1), ("one", 1))]
    model.graph.initializer.extend([*constants, numpy_helper.from_array(np.array([1]), "axis")])
    nodes = [
        helper.make_node("Shape", ["i5"], ["shape"]),
        helper.make_node("Gather", ["shape", "at"], ["length"], axis=0),
        helper.make_node("Cast", ["length"], ["total"], to=onnx.TensorProto.INT32),
        helper.make_node("ReduceSum", ["i5", "axis"], ["count"], keepdims=0),
        helper.make_node("Sub", ["count", "one"], ["last"]),
        helper.make_node("Cast", ["last"], ["ends"], to=onnx.TensorProto.INT32),
    ]
    (attention,) = model.graph.node
    attention.input[5:] = ["ends", "total"]
    nodes.append(attention)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    require_same(model, feeds)


@pytest.mark.parametrize("opset", [14, 17])
def test_operators_in_branches(opset: int) -> None:
    """Both of which are computed where the data choose."""
    text = f"""<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]>
    branches (float[2, 3] x, bool c) => (float[2, 3] y) {{
        y = If (c) <then_branch = a () => (float[2, 3] p) {{ p = com.microsoft.Gelu (x) }},
            else_branch = b () => (float[2, 3] q)
                {{ one = Constant <value_floats = [1.0, 2.0, 3.0]> ()
                   q = SimplifiedLayerNormalization (x, one) }}>
    }}"""
    for chosen in (True, False):
        feeds = {"x": normal(2, 3), "c": np.array(chosen)}
        require_same(onnx.parser.parse_model(text), feeds)


WEIGHT = normal(4, 3, 3, 3)
IMAGE = normal(1, 6, 6, 3)
#: Operators that ONNX Runtime has on GPUs only, and what they are of ONNX's.
ON_GPUS: dict[str, tuple[str, list[Any], dict[str, Any], str]] = {
    "BiasAdd": ("BiasAdd", [X, normal(8), normal(2, 5, 8)], {}, "s = Add(a, b) y = Add(s, c)"),
    "BiasSplitGelu": (
        "BiasSplitGelu",
        [X, normal(8)],
        {},
        "s = Add(a, b) l, r = Split <axis = -1, num_outputs = 2> (s) g = Gelu(r) y = Mul(l, g)",
    ),
    "BiasSoftmax": (
        "BiasSoftmax",
        [X, normal(2, 1, 8)],
        {"axis": 2, "is_inner_broadcast": 1},
        "s = Add(a, b) y = Softmax(s)",
    ),
    "BiasSoftmax of two axes": (
        "BiasSoftmax",
        [X, normal(5, 8)],
        {"axis": 1, "is_inner_broadcast": 0},
        """s = Add(a, b) f = Flatten(s) z = Softmax(f)
        t = Constant <value_ints = [2, 5, 8]> () y = Reshape(z, t)""",
    ),
    "GemmFastGelu": (
        "GemmFastGelu",
        [X, normal(8, 3), normal(3)],
        {},
        """p = MatMul(a, b) s = Add(p, c) y = Gelu <approximate = "tanh"> (s)""",
    ),
    "FusedMatMulActivation": (
        "FusedMatMulActivation",
        [X, normal(3, 8)],
        {"transB": 1, "alpha": 0.5, "activation": "LeakyRelu", "activation_alpha": 0.2},
        """t = Transpose <perm = [1, 0]> (b) p = MatMul(a, t)
        h = Constant <value_float = 0.5> () m = Mul(p, h) y = LeakyRelu <alpha = 0.2> (m)""",
    ),
    "NhwcConv": (
        "NhwcConv",
        [IMAGE, normal(4, 3, 5, 1), normal(4)],
        {},
        """x = Transpose <perm = [0, 3, 1, 2]> (a) k = Conv(x, b, c)
        y = Transpose <perm = [0, 2, 3, 1]> (k)""",
    ),
    "NhwcConv, channels of weights last": (
        "NhwcConv",
        [IMAGE, normal(4, 5, 2, 3)],
        {"strides": [1, 2]},
        """x = Transpose <perm = [0, 3, 1, 2]> (a) w = Transpose <perm = [0, 3, 1, 2]> (b)
        k = Conv <strides = [1, 2]> (x, w) y = Transpose <perm = [0, 2, 3, 1]> (k)""",
    ),
    "NhwcFusedConv": (
        "NhwcFusedConv",
        [IMAGE, normal(4, 3, 3, 3), normal(4), normal(1, 4, 4, 4)],
        {"activation": "Relu"},
        """x = Transpose <perm = [0, 3, 1, 2]> (a) k = Conv(x, b, c)
        l = Transpose <perm = [0, 2, 3, 1]> (k) s = Add(l, d) y = Relu(s)""",
    ),
}


@pytest.mark.parametrize("case", ON_GPUS)
def test_operators_of_gpus(case: str) -> None:
    kind, inputs, attributes, text = ON_GPUS[case]
    model, feeds = one(kind, inputs, variable=9, **attributes)
    named = dict(zip("abcd", inputs, strict=False))
    types = [f"float[{', '.join(map(str, v.shape))}] {n}" for n, v in named.items()]
    extents = ", ".join("klmn"[: inputs[0].ndim])
    meant = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 20]>
        meant ({", ".join(types)}) => (float[{extents}] y) {{ {text} }}"""
    )
    (right,) = run_on(meant, named)
    (result,) = run_on(simplify(model), feeds)
    assert result.shape == right.shape
    assert np.allclose(result, right, atol=1e-5)


REFUSED: dict[str, tuple[str, list[Any], dict[str, Any], str]] = {
    "a rotation": ("Attention", QKV, {"num_heads": N, "do_rotary": 1}, "do_rotary"),
    "a megatron mask": ("Attention", [*QKV, ints(2, 2, 1, 5, 5)], {"num_heads": N}, "mask"),
    "an unknown activation": (
        "FusedConv",
        [normal(1, 3, 6, 6), WEIGHT],
        {"activation": "Mystery"},
        "Mystery",
    ),
    "channels or columns": ("NhwcConv", [IMAGE, WEIGHT], {}, "columns"),
    "an order of weights": (
        "MatMulNBits",
        [X, *packed(4, 8, 6, 16)[0], np.zeros(8, np.int32)],
        packed(4, 8, 6, 16)[1],
        "weights",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_parts_that_are_not_read_are_named(case: str) -> None:
    kind, inputs, attributes, name = REFUSED[case]
    model, _ = one(kind, inputs, **attributes)
    with refused(GraphError, "one", kind, DOMAIN, name, "function"):
        simplify(model)


def test_weights_that_are_an_input_are_named() -> None:
    (weight, scales, _), attributes = packed(4, 32, 6, 16)
    model, _ = one("MatMulNBits", [normal(2, 32), weight, scales], variable=3, **attributes)
    with refused(GraphError, "one", "MatMulNBits", "i1", "constant"):
        simplify(model)


def test_a_function_of_the_model_is_what_it_says() -> None:
    """Which is the way out that refusals name."""
    model, _ = one("Attention", QKV[:1], num_heads=N)
    body = [helper.make_node("Neg", ["x"], ["y"])]
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function(DOMAIN, "Attention", ["x"], ["y"], body, opsets))
    assert kinds(simplify(model)) == ["Neg"]
