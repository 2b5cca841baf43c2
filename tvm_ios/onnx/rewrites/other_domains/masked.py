"""Attention on heads, and its masks."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from tvm_ios.onnx.rewrites.other_domains.deferred import refusal, shape_of, type_of
from tvm_ios.onnx.rewrites.steps import Steps


@dataclass(frozen=True)
class Attended:
    """The results of attention, of shape (batch, heads, queries, ...)."""

    values: Any
    scores: Any


def attend(
    steps: Steps, query: Any, key: Any, value: Any, *, head_size: int, added: list[Any]
) -> Attended:
    """Write attention on operands of shape (batch, heads, length, head size).

    The values in ``added`` are added to the scores before the softmax.
    """
    scale = steps.node.attributes.get_float("scale", 0.0) or 1 / sqrt(head_size)
    products = steps.op("MatMul", query, steps.op("Transpose", key, perm=[0, 1, 3, 2]))
    scores = steps.op("Mul", products, steps.number(scale))
    if added:
        mask, *others = added
        for other in others:
            mask = steps.op("Add", mask, other)
        scores = steps.op("Add", scores, mask)
    return Attended(steps.op("MatMul", steps.op("Softmax", scores, axis=-1), value), scores)


def heads(steps: Steps, value: Any, count: int) -> Any:
    """Return (batch, length, hidden) as (batch, heads, length, head size)."""
    parts = steps.op("Reshape", value, steps.number([0, 0, count, -1]))
    return steps.op("Transpose", parts, perm=[0, 2, 1, 3])


def joined_heads(steps: Steps, value: Any) -> Any:
    """Return (batch, heads, length, head size) as (batch, length, hidden)."""
    rows = steps.op("Transpose", value, perm=[0, 2, 1, 3])
    return steps.op("Reshape", rows, steps.number([0, 0, -1]))


def masks(steps: Steps, mask: Any, queries: int, past: int, total: int) -> list[Any]:
    """Return the terms that the node's mask and causality add to the scores: none or one.

    ``mask`` is ONNX Runtime's ``mask_index``, a mask of the keys or their number; None masks none.
    ``past`` is the number of cached keys, ``total`` that of all keys.
    """
    dtype = steps.node.outputs[0].dtype.numpy()
    hidden = np.array(steps.node.attributes.get_float("mask_filter_value", -10000.0), dtype)
    added = None if mask is None else _of_mask(steps, mask, total, hidden)
    if steps.integer("unidirectional", 0) and queries > 1:
        later = np.arange(total) > np.arange(past, past + queries).reshape(-1, 1)
        # Where there are more keys than queries ONNX Runtime lets the last query see them all.
        later[-1] = False
        lowest = np.finfo(dtype).min if dtype.kind == "f" else dtype.type(-3e38)
        if added is None:
            blocked = np.zeros(later.shape, dtype)
            blocked[later] = lowest
            added = steps.number(blocked)
        else:
            added = steps.op("Where", steps.number(later), steps.number(lowest), added)
    return [] if added is None else [added]


def _of_mask(steps: Steps, mask: Any, total: int, hidden: Any) -> Any:
    """Return 0 for the keys that a mask admits and ``hidden`` for others; None if it admits all."""
    extents = shape_of(mask)
    zero = np.zeros((), type_of(mask).numpy())
    batch = shape_of(steps.node.inputs[0])[0]
    if len(extents) == 2 and extents[1] == 1 != total:
        return None
    if len(extents) in (2, 3):
        seen = steps.op("Greater", mask, steps.number(zero))
        new = [extents[0], 1, *([1] if len(extents) == 2 else []), *extents[1:]]
        seen = steps.op("Reshape", seen, steps.number(new))
    elif extents in ([batch], [2 * batch]):
        places = steps.number(np.arange(total, dtype=zero.dtype))
        column = steps.number([batch, 1, 1, 1])
        ends, *starts = steps.split(mask, [batch] * (extents[0] // batch), 0)
        seen = steps.op("Less", places, steps.op("Reshape", ends, column))
        for start in starts:
            begin = steps.op("Reshape", start, column)
            seen = steps.op("And", seen, steps.op("Not", steps.op("Less", places, begin)))
    else:
        raise refusal(steps, f"has a mask of shape {'x'.join(map(str, extents))}")
    return steps.op("Where", seen, steps.number(np.zeros((), hidden.dtype)), steps.number(hidden))
