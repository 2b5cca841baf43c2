"""Attention whose keys serve several queries, with caches and rotations."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.contrib_sketch import (
    RNG,
    ints,
    normal,
    one,
    require_same,
)

pytest.importorskip("onnxruntime")
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
