"""Decompose operators that torch's exporter to ONNX lacks or translates wrongly."""

# Torch is an extra, and its types are incomplete where it is installed.
# pyright: basic, reportMissingImports=warning

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tvm_ios.models.torch_doubles import decompositions, is_double

#: A function of an operator's arguments; where it is ``NotImplemented``, the operator stays.
Decomposition = Callable[..., Any]


def decompose(program: Any) -> Any:
    """Return a ``torch.export.ExportedProgram`` without the operators of :func:`_table`."""
    import torch
    from torch._decomp import decomposition_table

    table = _table()
    lstm = torch.ops.aten.lstm.input
    # Normalisation by the batch's own statistics, which the exporter translates wrongly.
    training = torch.ops.aten._native_batch_norm_legit_functional.default
    table[training] = decomposition_table[training]
    if any(node.target is lstm and _has_projection(node) for node in program.graph.nodes):
        table[lstm] = decomposition_table[lstm]
    if any(is_double(node) for node in program.graph.nodes):
        table |= decompositions()
    names = {operator.name() for operator in table}
    if any(_name(node) in names and _is_misstated(node) for node in program.graph.nodes):
        return program.run_decompositions(table)
    return program


def _name(node: Any) -> str:
    """Return the name of a node's operator; of an in-place one that of its functional form."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return ""
    return ".".join(part for part in (schema.name.rstrip("_"), schema.overload_name) if part)


def _is_misstated(node: Any) -> bool:
    """Return whether the exporter would translate this use of an operator of the table wrongly."""
    import torch

    arguments = dict(enumerate(node.args)) | node.kwargs
    match _name(node):
        case "aten::add.Tensor" | "aten::sub.Tensor":
            is_scaled = is_double(node) and "alpha" in arguments
            return is_scaled or node.meta["val"].dtype == torch.bool
        case "aten::index_put":
            return any(index and _is_mask(index.meta["val"]) for index in node.args[1])
        case "aten::scaled_dot_product_attention":
            return any(arguments.get(mask) is not None for mask in (3, "attn_mask"))
        case "aten::avg_pool2d" | "aten::avg_pool3d":
            return any(arguments.get(divisor) is not None for divisor in (6, "divisor_override"))
        case "aten::clamp":
            return {int, float} <= set(map(type, arguments.values()))
        case _:
            return True


def _has_projection(lstm: Any) -> bool:
    """Return whether an LSTM's hidden and cell states differ in width, which ONNX lacks."""
    hidden, cell = (state.meta["val"].shape[-1] for state in lstm.args[1])
    return hidden != cell


def _is_mask(index: Any) -> bool:
    import torch

    return index is not None and index.dtype == torch.bool


def _table() -> dict[Any, Decomposition]:
    import torch

    aten: Any = torch.ops.aten
    return {
        aten.add.Tensor: _add,
        aten.rsub.Scalar: _subtract_from,
        aten.floor_divide.default: _floor_divide,
        aten.floor_divide.Scalar: _floor_divide,
        aten.div.Tensor_mode: _divide,
        aten.div.Scalar_mode: _divide,
        aten.remainder.Tensor: _remainder,
        aten.remainder.Scalar: _remainder,
        aten.remainder.Scalar_Tensor: _remainder,
        aten.sign.default: _sign,
        aten.signbit.default: _has_sign,
        aten.scaled_dot_product_attention.default: _attention,
        aten._native_multi_head_attention.default: _multi_head_attention,
        aten._transformer_encoder_layer_fwd.default: _encoder_layer,
        aten.avg_pool2d.default: partial(_average, 2),
        aten.avg_pool3d.default: partial(_average, 3),
        aten.adaptive_max_pool1d.default: partial(_adaptive_maximum, 1),
        aten.adaptive_max_pool2d.default: partial(_adaptive_maximum, 2),
        aten.adaptive_max_pool3d.default: partial(_adaptive_maximum, 3),
        aten.clamp.default: _clamp,
        aten.copysign.Tensor: _with_sign,
        aten.hypot.default: lambda left, right: (left * left + right * right).sqrt(),
        aten.fmin.default: partial(_of_numbers, torch.minimum),
        aten.fmax.default: partial(_of_numbers, torch.maximum),
        aten._adaptive_avg_pool3d.default: _adaptive_average,
        aten.adaptive_avg_pool3d.default: _adaptive_average,
        aten.cdist.default: _distances,
        aten.hamming_window.default: _hamming,
        aten.hamming_window.periodic: _hamming,
        aten.hamming_window.periodic_alpha: _hamming,
        aten.hamming_window.periodic_alpha_beta: _hamming,
        aten.index_put.default: _put,
        aten.scatter.src: partial(_scatter, torch.scatter),
        aten.scatter_add.default: partial(_scatter, torch.scatter_add),
        aten.scatter_reduce.two: _scatter_reduce,
        aten.cumprod.default: _running_product,
        aten.kthvalue.default: _kth_smallest,
        aten.median.dim: _median,
        aten.searchsorted.Tensor: _places,
    }


def _add(left: Any, right: Any, *, alpha: Any = 1) -> Any:
    import torch

    kinds = {getattr(value, "dtype", type(value)) for value in (left, right)}
    if isinstance(alpha, float) and torch.float64 in kinds:
        return left + right * alpha
    if not kinds <= {torch.bool, bool} or not alpha:
        return NotImplemented
    return left | right


def _clamp(data: Any, least: Any = None, most: Any = None) -> Any:
    """Clamp between an integer and a float as between floats: the exporter wants equal types."""
    import torch

    if {type(least), type(most)} != {int, float}:
        return NotImplemented
    return torch.clamp(data, float(least), float(most))


def _subtract_from(subtrahend: Any, number: Any, alpha: Any = 1) -> Any:
    import torch

    kind = torch.result_type(subtrahend, number)
    product = subtrahend.to(kind) if alpha == 1 else subtrahend.to(kind) * alpha
    return torch.full((), number, dtype=kind) - product


def _floor_divide(left: Any, right: Any) -> Any:
    """Divide and floor by the remainder, as a float quotient may be rounded up first."""
    import torch

    kind = torch.result_type(left, right)
    if not kind.is_floating_point:
        if all(getattr(value, "dtype", None) == kind for value in (left, right)):
            return NotImplemented
        return torch.floor_divide(*_of_kind(kind, left, right))
    left, right = _of_kind(_computed(kind), left, right)
    exact, quotient = torch.fmod(left, right), left / right
    whole = (left - exact) / right
    whole = torch.where((exact != 0) & ((exact < 0) != (right < 0)), whole - 1, whole)
    whole = torch.where(
        whole == 0, torch.copysign(torch.zeros_like(whole), quotient), whole.round()
    )
    return torch.where(right == 0, quotient, whole).to(kind)


def _divide(left: Any, right: Any, *, rounding_mode: str | None = None) -> Any:
    """Divide and round; for integers without floats, which might round the quotient."""
    import torch

    if rounding_mode is None:
        return NotImplemented
    if rounding_mode == "floor":
        return torch.floor_divide(left, right)
    kind = torch.result_type(left, right)
    left, right = _of_kind(_computed(kind), left, right)
    if kind.is_floating_point:
        return (left / right).trunc().to(kind)
    is_above = (torch.fmod(left, right) != 0) & ((left < 0) != (right < 0))
    return torch.floor_divide(left, right) + is_above.to(kind)


def _remainder(left: Any, right: Any) -> Any:
    """Return the remainder with the divisor's sign, from the exact one with the dividend's."""
    import torch

    kind = torch.result_type(left, right)
    if not kind.is_floating_point:
        return NotImplemented
    left, right = _of_kind(kind, left, right)
    exact = torch.fmod(left, right)
    return torch.where((exact != 0) & ((exact < 0) != (right < 0)), exact + right, exact)


def _computed(kind: Any) -> Any:
    """Return the type in which torch computes: float32 for 16-bit floats, else the same."""
    import torch

    return torch.float32 if kind.is_floating_point and kind.itemsize == 2 else kind


def _of_kind(kind: Any, *values: Any) -> list[Any]:
    import torch

    return [
        value.to(kind) if isinstance(value, torch.Tensor) else torch.full((), value, dtype=kind)
        for value in values
    ]


def _sign(data: Any) -> Any:
    """Return the sign of each element, with zero for NaN, where ONNX gives NaN."""
    return (data > 0).to(data.dtype) - (data < 0).to(data.dtype)


def _has_sign(data: Any) -> Any:
    if not data.dtype.is_floating_point:
        return data < 0
    return (data < 0) | ((data == 0) & (data.reciprocal() < 0))


def _with_sign(size: Any, sign: Any) -> Any:
    import torch

    return torch.where(torch.signbit(sign), -size.abs(), size.abs())


def _of_numbers(extreme: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """Return the extreme of two tensors, ignoring NaN where only one is NaN."""
    import torch

    found = extreme(left, right)
    return torch.where(torch.isnan(left), right, torch.where(torch.isnan(right), left, found))


def _attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Compute attention, with zeros in rows that are fully masked, where a softmax gives NaN."""
    import torch

    if dropout:
        return NotImplemented
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = (every.repeat_interleave(groups, -3) for every in (key, value))
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query * factor) @ key.transpose(-1, -2)
    if is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is None:
        return scores.softmax(-1) @ value
    if mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=query.dtype).masked_fill(~mask, -math.inf)
    result = (scores + mask).softmax(-1) @ value
    if is_causal:
        return result
    return result.masked_fill((mask == -math.inf).all(-1, keepdim=True), 0)


def _multi_head_attention(
    query: Any,
    key: Any,
    value: Any,
    width: int,
    heads: int,
    weight: Any,
    bias: Any,
    out_weight: Any,
    out_bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """Compute self-attention of several heads, which torch has in one operator for inference."""
    import torch
    from torch.nn.functional import linear

    # As graphs have it; another attention's inputs are other nodes, which one product cannot read.
    if query is not key or key is not value or need_weights:
        return NotImplemented
    batch, length, _ = query.shape
    products = linear(query, weight, bias).unflatten(-1, (3, heads, width // heads))
    query, key, value = products.permute(2, 0, 3, 1, 4).unbind()
    if mask is not None:
        # Masks of queries and keys, of keys alone, and of all.
        shape = {0: (1, 1, length, length), 1: (batch, 1, 1, length)}.get(mask_type or 0)
        mask = ~mask.to(torch.bool)
        mask = mask if shape is None else mask.reshape(shape)
    result = _attention(query, key, value, mask).transpose(1, 2).flatten(2)
    return linear(result, out_weight, out_bias), query.new_empty(0)


def _encoder_layer(
    data: Any,
    width: int,
    heads: int,
    weight: Any,
    bias: Any,
    out_weight: Any,
    out_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    *rest: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """Compute a layer of a transformer's encoder, which torch has in one operator for inference."""
    from torch.nn.functional import gelu, layer_norm, linear, relu

    norms, inner, last = (rest[:2], rest[2:4]), rest[4:6], rest[6:8]
    if rest[8:]:
        mask, mask_type = rest[8:]

    def normalised(value: Any, place: int) -> Any:
        factor, shift = norms[place]
        return layer_norm(value, (width,), factor, shift, eps)

    def attended(value: Any) -> Any:
        projections = weight, bias, out_weight, out_bias
        result = _multi_head_attention(
            value, value, value, width, heads, *projections, mask, False, True, mask_type
        )
        return result[0]

    def transformed(value: Any) -> Any:
        return linear((gelu if use_gelu else relu)(linear(value, *inner)), *last)

    if norm_first:
        data = data + attended(normalised(data, 0))
        return data + transformed(normalised(data, 1))
    data = normalised(data + attended(data), 0)
    return normalised(data + transformed(data), 1)


def _average(
    rank: int,
    data: Any,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Pool averages with an explicit divisor, which ONNX lacks."""
    import torch

    if divisor_override is None:
        return NotImplemented
    kernel, stride, padding = (
        [*values] * (rank if len(values) == 1 else 1)
        for values in (kernel, stride or kernel, padding)
    )
    ends: list[int] = []
    for size, window, step, before in zip(data.shape[-rank:], kernel, stride, padding, strict=True):
        steps = (size + 2 * before - window + (step - 1) * ceil_mode) // step
        # No window begins past the end.
        steps -= ceil_mode and steps * step >= size + before
        ends = [before, steps * step + window - size - before, *ends]
    pool = (torch.nn.functional.avg_pool2d, torch.nn.functional.avg_pool3d)[rank - 2]
    padded = torch.nn.functional.pad(data, ends)
    return pool(padded, kernel, stride) * (math.prod(kernel) / divisor_override)


def _adaptive_maximum(rank: int, data: Any, sizes: Sequence[int]) -> Any:
    """Pool maxima, and their indices, of windows of several sizes.

    Shorter windows repeat their last element.
    """
    import torch

    windows, places = data, torch.zeros((), dtype=torch.int64)
    for axis, (size, count) in enumerate(zip(data.shape[-rank:], sizes, strict=True)):
        starts, ends = _windows(size, count)
        longest = max(-(-(i + 1) * size // count) - i * size // count for i in range(count))
        index = torch.minimum(starts[:, None] + torch.arange(longest), ends[:, None] - 1)
        # An axis of windows and one of their elements, for each axis so far.
        windows = windows.index_select(axis - rank, index.flatten())
        windows = windows.unflatten(axis - rank, index.shape)
        places = places[..., None, None] * size + index
    order = [2 * axis + offset for offset in (0, 1) for axis in range(rank)]
    lead = data.dim() - rank
    windows = windows.permute(*range(lead), *(lead + axis for axis in order)).flatten(lead + rank)
    places = places.permute(*order).flatten(rank).expand(windows.shape)
    first = windows.argmax(-1, keepdim=True)
    return windows.amax(-1), torch.gather(places, -1, first).squeeze(-1)


def _adaptive_average(data: Any, sizes: Sequence[int]) -> Any:
    """Pool averages of windows of several sizes, along one axis after another."""
    import torch

    rank = len(sizes)
    for axis, (size, count) in enumerate(zip(data.shape[-rank:], sizes, strict=True)):
        starts, ends = _windows(size, count)
        place = torch.arange(size)
        inside = (place >= starts[:, None]) & (place < ends[:, None])
        weights = inside / (ends - starts)[:, None]
        data = (data.movedim(axis - rank, -1) @ weights.to(data.dtype).T).movedim(-1, axis - rank)
    return data


def _windows(size: int, count: int) -> tuple[Any, Any]:
    """Return where each window of an adaptive pool begins and ends."""
    import torch

    place = torch.arange(count)
    return place * size // count, ((place + 1) * size + count - 1) // count


def _distances(left: Any, right: Any, p: float = 2, compute_mode: Any = None) -> Any:
    import torch

    return torch.linalg.vector_norm(left.unsqueeze(-2) - right.unsqueeze(-3), p, -1)


def _hamming(
    length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **how: Any
) -> Any:
    """Return a Hamming window with torch's rounded coefficients; ONNX has exact ones."""
    import torch

    turns = torch.arange(length, **how) * (2 * math.pi / max(length - (not periodic), 1))
    return alpha - beta * torch.cos(turns)


def _put(data: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """Write one number where a mask is set by ``where``; ONNX would search the indices first."""
    import torch

    if len(indices) != 1 or not _is_mask(indices[0]) or values.numel() != 1:
        return NotImplemented
    mask = indices[0].reshape(indices[0].shape + (1,) * (data.dim() - indices[0].dim()))
    number = values.reshape(()).to(data.dtype)
    return torch.where(mask, data + number if accumulate else number, data)


def _scatter(
    operator: Any, data: Any, dim: int, index: Any, source: Any, *more: Any, **how: Any
) -> Any:
    """Scatter only the part of the source that has indices; ONNX requires equal shapes."""
    if source.shape == index.shape:
        return NotImplemented
    part = source[tuple(slice(extent) for extent in index.shape)]
    return operator(data, dim, index, part, *more, **how)


def _scatter_reduce(
    data: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    import torch

    if reduce != "mean":
        return _scatter(
            torch.scatter_reduce, data, dim, index, source, reduce, include_self=include_self
        )
    ones = torch.ones(index.shape, dtype=data.dtype)
    counts = torch.full_like(data, include_self).scatter_add(dim, index, ones)
    first = data if include_self else data.masked_fill(counts > 0, 0)
    rounding = None if data.dtype.is_floating_point else "floor"
    sums = first.scatter_add(dim, index, source)
    return torch.div(sums, counts.clamp(min=1), rounding_mode=rounding)


def _running_product(data: Any, dim: int, *, dtype: Any = None) -> Any:
    """Return the cumulative product along an axis, in a logarithmic number of steps."""
    import torch

    if not data.dtype.is_floating_point and dtype is None:
        dtype = torch.int64
    product, reach = data.to(dtype or data.dtype).movedim(dim, -1), 1
    while reach < product.shape[-1]:
        earlier = torch.nn.functional.pad(product[..., :-reach], (reach, 0), value=1)
        product, reach = product * earlier, 2 * reach
    return product.movedim(-1, dim)


def _kth_smallest(data: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    values, indices = data.sort(dim)
    rows = [every.narrow(dim, k - 1, 1) for every in (values, indices)]
    return tuple(rows) if keepdim else tuple(row.squeeze(dim) for row in rows)


def _median(data: Any, dim: int, keepdim: bool = False) -> Any:
    return _kth_smallest(data, (data.shape[dim] + 1) // 2, dim, keepdim)


def _places(
    boundaries: Any,
    data: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Return the number of boundaries that lie before each element (``searchsorted``)."""
    import torch

    if sorter is not None:
        return NotImplemented
    rows, numbers = boundaries.unsqueeze(-2), data.unsqueeze(-1)
    before = rows <= numbers if right or side == "right" else rows < numbers
    return before.sum(-1, dtype=torch.int32 if out_int32 else torch.int64)
