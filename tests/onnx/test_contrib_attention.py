"""Attention as ONNX Runtime's own operators have it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.contrib_sketch import (
    MASK,
    QKV,
    RNG,
    D,
    H,
    N,
    ints,
    normal,
    one,
    require_same,
)
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
