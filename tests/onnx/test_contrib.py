"""Operators of ONNX Runtime's own, written in those of ONNX, beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.contrib_sketch import DOMAIN, MASK, QKV, N, X, ints, normal, one, packed, require_same
from tests.onnx_sketch import kinds, run_on
from tests.refusals import refused
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.simplify import simplify

pytest.importorskip("onnxruntime")
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
    require_same(*one(kind, inputs, outputs, domain="", version=opset, axis=axis))


WORDS = ints(20, 2, 5)
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
    require_near(*one("EmbedLayerNormalization", inputs, outputs, variable=2, **attributes))


def require_near(model: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    """Require the same results, some of which may be zeros."""
    simple = simplify(model)
    for result, right in zip(run_on(simple, feeds), run_on(model, feeds), strict=True):
        assert (result.shape, result.dtype) == (right.shape, right.dtype)
        assert np.allclose(result, right, atol=1e-5)


@pytest.mark.parametrize("segmented", [False, True])
def test_embeddings_in_eight_bits(segmented: bool) -> None:
    tables: list[Any] = [ints(256, *rows.shape, dtype=np.uint8) for rows in ROWS]
    scales: list[Any] = [np.float32(0.01 + place / 999) for place in range(5)]
    zeros: list[Any] = [np.uint8(100 + 9 * place) for place in range(5)]
    segments = ints(2, 2, 5)
    if not segmented:
        segments = tables[2] = scales[2] = zeros[2] = None
    inputs = [WORDS, segments, *tables, MASK, *scales, *zeros]
    require_near(*one("QEmbedLayerNormalization", inputs, 2, variable=2))


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


REFUSED: dict[str, tuple[str, list[Any], dict[str, Any], str]] = {
    "a rotation": ("Attention", QKV, {"num_heads": N, "do_rotary": 1}, "do_rotary"),
    "a megatron mask": ("Attention", [*QKV, ints(2, 2, 1, 5, 5)], {"num_heads": N}, "mask"),
    "an unknown activation": (
        "FusedConv",
        [normal(1, 3, 6, 6), normal(4, 3, 3, 3)],
        {"activation": "Mystery"},
        "Mystery",
    ),
    "channels or columns": ("NhwcConv", [normal(1, 6, 6, 3), normal(4, 3, 3, 3)], {}, "columns"),
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
