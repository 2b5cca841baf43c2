"""Attention as ONNX Runtime's own operators have it, whose keys may serve several queries."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.contrib_sketch import MASK, QKV, RNG, D, H, N, ints, normal, one, require_same
from tests.onnx_sketch import run_on
from tvm_ios.files.array_files import Array
from tvm_ios.onnx.simplify import simplify

pytest.importorskip("onnxruntime")
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
    "heads, causal, of other keys": (
        "MultiHeadAttention",
        [normal(2, 5, D), normal(2, 7, D), normal(2, 7, D)],
        1,
        {"unidirectional": 1},
    ),
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
