"""Rewrites of grouped-query attention and rotary embeddings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.rewrites.other_domains.deferred import (
    array_of,
    finish,
    input_of,
    refusal,
    shape_of,
)
from tvm_ios.onnx.rewrites.other_domains.masked import heads, joined_heads
from tvm_ios.onnx.rewrites.steps import Steps

#: Inputs and attributes of ``GroupQueryAttention`` that change what it computes otherwise.
_UNKNOWN_INPUTS = range(12, 20)
_UNKNOWN_ATTRIBUTES = ("kv_cache_bit_width", "qk_output", "sliding_window_cache")


@dataclass(frozen=True)
class _Lengths:
    """Lengths of an attention's sequences.

    ``queries`` is the number of new positions, ``cached`` and ``total`` the length of the cache
    that is read and written. ``last`` and ``begin`` are values of shape (batch, 1): the last
    position of each sequence, and the first new one, None if 0.
    """

    batch: int
    queries: int
    cached: int
    total: int
    last: Any
    begin: Any


def _rotary_embedding(steps: Steps) -> None:
    source, places, cosines, sines = steps.node.inputs
    if steps.node.attributes.get_float("scale", 1.0) != 1.0 or steps.integer(
        "is_packed_batching", 0
    ):
        raise refusal(steps, "scales, or packs sequences of several lengths")
    extents, rotated = shape_of(source), 2 * shape_of(cosines)[1]
    if len(extents) == 3:
        count = steps.integer("num_heads", 0)
        if not steps.integer("rotary_embedding_dim", 0):
            count = extents[2] // rotated
        batch, length, parts = extents[0], extents[1], heads(steps, source, count)
        size = extents[2] // count
    else:
        (batch, _, length, size), parts = extents, source
    if shape_of(places) == [1]:
        offsets = np.tile(np.arange(length), (batch, 1))
        places = steps.op("Add", steps.cast(places, ir.DataType.INT64), steps.number(offsets))
    result = _rotated(steps, parts, places, cosines, sines, size)
    steps.stand_for(joined_heads(steps, result) if len(extents) == 3 else result)


def _rotated(steps: Steps, value: Any, places: Any, cosines: Any, sines: Any, size: int) -> Any:
    """Apply rotary tables at these positions to (batch, heads, length, ``size``)."""
    half = shape_of(cosines)[1]
    rest = size - 2 * half
    kept = None
    if rest:
        value, kept = steps.split(value, [2 * half, rest], -1)
    cosine, sine = (
        steps.unsqueezed(steps.op("Gather", table, places, axis=0), 1) for table in (cosines, sines)
    )
    interleaved = steps.integer("interleaved", 0) or steps.integer("rotary_interleaved", 0)
    if interleaved:
        pairs = steps.op("Reshape", value, steps.number([0, 0, 0, half, 2]))
        first, second = (steps.squeezed(part, -1) for part in steps.split(pairs, [1, 1], -1))
    else:
        first, second = steps.split(value, [half, half], -1)
    turned = [
        steps.op("Sub", steps.op("Mul", first, cosine), steps.op("Mul", second, sine)),
        steps.op("Add", steps.op("Mul", first, sine), steps.op("Mul", second, cosine)),
    ]
    if interleaved:
        pairs = steps.op("Concat", *(steps.unsqueezed(part, -1) for part in turned), axis=-1)
        turned = [steps.op("Reshape", pairs, steps.number([0, 0, 0, 2 * half]))]
    if kept is not None:
        turned.append(kept)
    return turned[0] if len(turned) == 1 else steps.op("Concat", *turned, axis=-1)


def _grouped_attention(steps: Steps) -> None:
    """Rewrite ``GroupQueryAttention``: each sequence appends its new positions to its cache."""
    inputs = [input_of(steps, place) for place in range(12)]
    query, key, value, past_key, past_value, ends, total = inputs[:7]
    cosines, sines, places, added, sink = inputs[7:]
    if any(input_of(steps, place) is not None for place in _UNKNOWN_INPUTS) or any(
        steps.integer(name, 0) for name in _UNKNOWN_ATTRIBUTES
    ):
        raise refusal(steps, "quantises its cache, normalises, or shows its scores")
    count, groups = steps.integer("num_heads", 0), steps.integer("kv_num_heads", 0)
    batch, length, width = shape_of(query)
    if key is None:
        size = width // (count + 2 * groups)
        query, key, value = steps.split(query, [count * size, groups * size, groups * size], -1)
    else:
        size = width // count
    query, key, value = (
        heads(steps, part, n) for part, n in ((query, count), (key, groups), (value, groups))
    )
    cached = 0 if past_key is None else shape_of(past_key)[2]
    known = int(array_of(total).item())
    last = steps.op("Reshape", steps.cast(ends, ir.DataType.INT64), steps.number([batch, 1]))
    begin = None if known == length else steps.op("Sub", last, steps.number([length - 1]))
    lengths = _Lengths(batch, length, cached, max(cached, known), last, begin)
    if steps.integer("do_rotary", 0):
        if places is None:
            offsets = steps.number(np.tile(np.arange(length), (batch, 1)))
            places = offsets if begin is None else steps.op("Add", begin, offsets)
        query = _rotated(steps, query, places, cosines, sines, size)
        key = _rotated(steps, key, places, cosines, sines, size)
    if cached:
        key, value = (
            _appended(steps, old, new, lengths, groups, size)
            for old, new in ((past_key, key), (past_value, value))
        )
    scores = _scores(steps, query, key, lengths, size)
    if added is not None:
        scores = steps.op("Add", scores, added)
    scores = steps.op("Where", _seen(steps, lengths), scores, steps.number(_lowest(steps)))
    shares = _softmax(steps, scores, sink, [batch, count, length, lengths.total])
    rows = [batch, groups, count // groups * length]
    shares = steps.op("Reshape", shares, steps.number([*rows, lengths.total]))
    attended = steps.op("MatMul", shares, value)
    attended = steps.op("Reshape", attended, steps.number([batch, count, length, size]))
    finish(steps, joined_heads(steps, attended), key, value)


def _appended(steps: Steps, old: Any, new: Any, lengths: _Lengths, groups: int, size: int) -> Any:
    """Return a cache with new positions written from their beginning on, and zeros behind them."""
    zeros = np.zeros(
        (lengths.batch, groups, lengths.total - lengths.cached, size),
        steps.node.outputs[0].dtype.numpy(),
    )
    if zeros.size:
        old = steps.op("Concat", old, steps.number(zeros), axis=2)
    begin = steps.number([0]) if lengths.begin is None else lengths.begin
    after = steps.op("Sub", steps.number(np.arange(lengths.total)), begin)
    column = steps.number([-1, 1, lengths.total, 1])
    is_old, not_behind = (
        steps.op("Reshape", steps.op("Less", after, steps.number([end])), column)
        for end in (0, lengths.queries)
    )
    if lengths.queries > 1:
        places = steps.op("Clip", after, *map(steps.number, np.array([0, lengths.queries - 1])))
        extents = [lengths.batch, groups, lengths.total, size]
        places = steps.op("Expand", steps.op("Reshape", places, column), steps.number(extents))
        new = steps.op("GatherElements", new, places, axis=2)
    present = steps.op("Where", not_behind, new, steps.number(zeros.dtype.type(0)))
    return steps.op("Where", is_old, old, present)


def _scores(steps: Steps, query: Any, key: Any, lengths: _Lengths, size: int) -> Any:
    """Return scaled products of queries and keys, of shape (batch, heads, queries, keys)."""
    count, groups = steps.integer("num_heads", 0), steps.integer("kv_num_heads", 0)
    rows = [lengths.batch, groups, count // groups * lengths.queries, size]
    grouped = steps.op("Reshape", query, steps.number(rows))
    products = steps.op("MatMul", grouped, steps.op("Transpose", key, perm=[0, 1, 3, 2]))
    shape = [lengths.batch, count, lengths.queries, lengths.total]
    products = steps.op("Reshape", products, steps.number(shape))
    scale = steps.node.attributes.get_float("scale", 0.0) or 1 / sqrt(size)
    scores = steps.op("Mul", products, steps.number(scale))
    cap = steps.node.attributes.get_float("softcap", 0.0)
    if cap:
        bent = steps.op("Tanh", steps.op("Mul", scores, steps.number(1 / cap)))
        scores = steps.op("Mul", bent, steps.number(cap))
    return scores


def _seen(steps: Steps, lengths: _Lengths) -> Any:
    """Return the mask of the keys that each query sees: earlier ones, within the window."""
    columns = np.arange(lengths.total).reshape(1, 1, 1, -1)
    rows = np.arange(lengths.queries).reshape(1, 1, -1, 1)
    window = steps.integer("local_window_size", -1)
    causal = steps.integer("causal", 1)
    if lengths.begin is None:
        seen = columns <= rows if causal else columns < lengths.queries
        if window > 0:
            seen = seen & (columns > rows - window)
        # Padding positions see all keys that are not padding.
        words = steps.op("Reshape", lengths.last, steps.number([lengths.batch, 1, 1, 1]))
        behind = steps.op("Less", words, steps.number(columns))
        return steps.op("And", steps.number(seen), steps.op("Not", behind))
    begin = steps.op("Reshape", lengths.begin, steps.number([lengths.batch, 1, 1, 1]))
    last = np.full_like(rows, lengths.queries - 1) if not causal else rows
    ends = steps.op("Add", begin, steps.number(last))
    seen = steps.op("Not", steps.op("Less", ends, steps.number(columns)))
    if window > 0:
        before = steps.op("Sub", ends, steps.number([window]))
        seen = steps.op("And", seen, steps.op("Less", before, steps.number(columns)))
    return seen


def _lowest(steps: Steps) -> Any:
    dtype = steps.node.outputs[0].dtype.numpy()
    return np.finfo(dtype).min if dtype.kind == "f" else dtype.type(-3e38)


def _softmax(steps: Steps, scores: Any, sink: Any, shape: list[int]) -> Any:
    """Return the softmax of scores, extended by a sink per head (or zero) if the node has one."""
    if sink is None and not steps.integer("smooth_softmax", 0):
        return steps.op("Softmax", scores, axis=-1)
    if sink is None:
        sink = steps.number(np.zeros((1, 1, 1, 1), steps.node.outputs[0].dtype.numpy()))
    else:
        sink = steps.op("Reshape", sink, steps.number([1, shape[1], 1, 1]))
    column = steps.op("Expand", sink, steps.number([*shape[:3], 1]))
    shares = steps.op("Softmax", steps.op("Concat", scores, column, axis=-1), axis=-1)
    return steps.split(shares, [shape[3], 1], -1)[0]


#: By the operators' names.
GROUPED: Mapping[str, Callable[[Steps], None]] = {
    "GroupQueryAttention": _grouped_attention,
    "RotaryEmbedding": _rotary_embedding,
}
