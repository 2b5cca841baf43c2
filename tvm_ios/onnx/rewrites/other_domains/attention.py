"""Rewrites of ONNX Runtime's attention operators with projections, masks and caches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm_ios.onnx.rewrites.other_domains.deferred import finish, input_of, refusal, shape_of
from tvm_ios.onnx.rewrites.other_domains.integers import as_float_product
from tvm_ios.onnx.rewrites.other_domains.masked import attend, heads, joined_heads, masks
from tvm_ios.onnx.rewrites.steps import Steps


def _attention(steps: Steps) -> None:
    """Rewrite ``Attention``: queries, keys and values are one product of the input."""
    source, weight, bias, mask, past, added = (input_of(steps, place) for place in range(6))
    projected = steps.op("MatMul", source, weight)
    if bias is not None:
        projected = steps.op("Add", projected, bias)
    _attend_to_projected(steps, projected, shape_of(weight)[1], mask, past, added)


def _quantised_attention(steps: Steps) -> None:
    """Rewrite ``QAttention``, whose projection is an integer product."""
    inputs = [input_of(steps, place) for place in range(9)]
    source, weight, bias, scale, weight_scale, mask, zero, weight_zero, past = inputs
    projected = as_float_product(
        steps, (source, scale, zero), (weight, weight_scale, weight_zero), bias
    )
    _attend_to_projected(steps, projected, shape_of(weight)[1], mask, past, None)


def _attend_to_projected(
    steps: Steps, projected: Any, width: int, mask: Any, past: Any, added: Any
) -> None:
    """Write attention on projected data, ``width`` wide for queries, keys and values together."""
    count = steps.integer("num_heads", 0)
    for name in ("do_rotary", "past_present_share_buffer"):
        if steps.integer(name, 0):
            raise refusal(steps, f"has {name!r}")
    sizes = steps.integers("qkv_hidden_sizes") or [width // 3] * 3
    parts = steps.split(projected, sizes, -1)
    query, key, value = (heads(steps, part, count) for part in parts)
    queries = shape_of(steps.node.inputs[0])[1]
    earlier = 0 if past is None else shape_of(past)[3]
    if past is not None:
        before = (steps.squeezed(part, 0) for part in steps.split(past, [1, 1], 0))
        key, value = (
            steps.op("Concat", old, new, axis=2)
            for old, new in zip(before, (key, value), strict=True)
        )
    masked = masks(steps, mask, queries, earlier, earlier + queries)
    if added is not None:
        masked = [added, *masked]
    attended = attend(steps, query, key, value, head_size=sizes[0] // count, added=masked)
    present = None
    if len(steps.node.outputs) > 1:
        both = (steps.unsqueezed(part, 0) for part in (key, value))
        present = steps.op("Concat", *both, axis=0)
    finish(steps, joined_heads(steps, attended.values), present)


def _multi_head_attention(steps: Steps) -> None:
    """Rewrite ``MultiHeadAttention``: queries, keys and values are inputs, separate or packed."""
    inputs = [input_of(steps, place) for place in range(8)]
    query, key, value, bias, mask, added, past_key, past_value = inputs
    count = steps.integer("num_heads", 0)
    for place in (8, 9):
        if input_of(steps, place) is not None:
            raise refusal(steps, "writes into the cache that it reads")
    extents = shape_of(query)
    if len(extents) == 5:  # (batch, length, heads, 3, head size)
        query, key, value = _unpacked(steps, query, 3)
    elif value is None and key is not None and len(shape_of(key)) == 5:
        query, (key, value) = heads(steps, query, count), _unpacked(steps, key, 2)
    else:
        hidden = extents[2]
        if bias is not None:
            sizes = [hidden, hidden, shape_of(bias)[0] - 2 * hidden]
            biases = steps.split(bias, sizes, 0)
            query = steps.op("Add", query, biases[0])
            if len(shape_of(key)) == 3:
                key, value = (
                    steps.op("Add", part, shift)
                    for part, shift in zip((key, value), biases[1:], strict=True)
                )
            bias = None
        query = heads(steps, query, count)
        if len(shape_of(input_of(steps, 1))) == 3:
            key, value = (heads(steps, part, count) for part in (key, value))
    if bias is not None:
        raise refusal(steps, "has a bias and packed inputs")
    earlier = 0 if past_key is None else shape_of(past_key)[2]
    if past_key is not None:
        key = steps.op("Concat", past_key, key, axis=2)
        value = steps.op("Concat", past_value, value, axis=2)
    masked = masks(steps, mask, extents[1], earlier, earlier + _keys(steps))
    if added is not None:
        masked = [added, *masked]
    size = extents[4] if len(extents) == 5 else extents[2] // count
    attended = attend(steps, query, key, value, head_size=size, added=masked)
    finish(steps, joined_heads(steps, attended.values), key, value, attended.scores)


def _keys(steps: Steps) -> int:
    """Return the number of keys that a node reads."""
    key = input_of(steps, 1)
    if key is None:
        return shape_of(steps.node.inputs[0])[1]
    extents = shape_of(key)
    return extents[2 if len(extents) == 4 else 1]


def _unpacked(steps: Steps, value: Any, parts: int) -> list[Any]:
    """Split (batch, length, heads, parts, size) into parts of (batch, heads, length, size)."""
    turned = steps.op("Transpose", value, perm=[3, 0, 2, 1, 4])
    return [steps.squeezed(part, 0) for part in steps.split(turned, [1] * parts, 0)]


#: By the operators' names.
ATTENTION: Mapping[str, Callable[[Steps], None]] = {
    "Attention": _attention,
    "MultiHeadAttention": _multi_head_attention,
    "QAttention": _quantised_attention,
}
