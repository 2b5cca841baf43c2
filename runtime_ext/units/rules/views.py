"""Operators that move data without computing: slices, splits, padding, reshapes, joins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import relax

from runtime_ext.kernels.expression import Access, Expr, map_accesses, windows
from runtime_ext.kernels.open_shapes import extent_in_relax, is_same
from runtime_ext.kernels.relax_function import operator_name, static_shape
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.storing import in_memory, write
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import (
    Arranged,
    Interleaved,
    Lazy,
    Padded,
    Pending,
    Stored,
    Value,
    Widened,
    as_expression,
    four,
    is_row_major,
    row_major,
    shift,
    stretch,
)


def narrow(unit: UnitDraft, value: Value, axis: int, begin: int, count: int, step: int) -> Value:
    """Return a slice of a value along one axis; a view wherever possible."""
    if isinstance(value, Padded):
        inside = _narrow_padded(unit, value, axis, begin, count, step)
        if inside is not None:
            return inside
    if isinstance(value, Interleaved) and axis == 1 and step == 1:
        groups = len(value.parts)
        if begin % groups == count % groups == 0:
            each = (begin // groups, count // groups, 1)
            parts = tuple(narrow(unit, part, axis, *each) for part in value.parts)
            return Interleaved(parts, (value.shape[0], count, *value.shape[2:]))
    if isinstance(value, Pending) and step == 1:
        draft = unit.drafts[value.kernel]
        logical = axis + 4 - len(value.shape)
        whole_blocks = isinstance(draft.anchor, Contraction) and draft.anchor.groups == 1
        if whole_blocks and logical == draft.channel_axis:
            shape = (*value.shape[:axis], count, *value.shape[axis + 1 :])
            moved = shift(value.expr, logical, begin)
            return Pending(value.kernel, moved, shape, value.begin + begin)
    if isinstance(value, Lazy) and len(value.shape) <= 4 and not any(windows(value.expr)):
        shape = (*value.shape[:axis], count, *value.shape[axis + 1 :])
        logical = axis + 4 - len(value.shape)
        return Lazy(stretch(shift(value.expr, logical, begin), logical, step), shape)
    stored = in_memory(unit, value)
    strides = list(stored.strides)
    offset = stored.offset + begin * strides[axis]
    strides[axis] *= step
    shape = (*stored.shape[:axis], count, *stored.shape[axis + 1 :])
    return Stored(stored.storage, shape, tuple(strides), offset, stored.dtype)


def _narrow_padded(
    unit: UnitDraft, value: Padded, axis: int, begin: int, count: int, step: int
) -> Value | None:
    """Return a slice of a padded value as a padded slice; None if the step meets padding."""
    if axis < 2:
        return None
    inner = value.inner
    assert not isinstance(inner, Arranged)
    pads = list(value.pads)
    size = inner.shape[axis]
    first = begin - pads[axis - 2]
    last = first + (count - 1) * step
    pads[axis - 2] = pads[axis] = 0
    if step > 1 and (first < 0 or last >= size):
        return None
    # In this order no padding at some shapes decides nothing.
    low, high = max(first, 0), min(size - 1, last)
    if low > high:
        return None
    pads[axis - 2], pads[axis] = low - first, last - high
    narrowed = narrow(unit, inner, axis, low, (high - low) // step + 1, step)
    if not any(pads) or isinstance(narrowed, Arranged):
        return narrowed
    shape = (*value.shape[:axis], count, *value.shape[axis + 1 :])
    return Padded(narrowed, (pads[0], pads[1], pads[2], pads[3]), shape)


def subsample(unit: UnitDraft, value: Value, strides: tuple[int, int], var: Any) -> bool:
    """Bind a variable to a pool of windows of one pixel; False if it would read padding."""
    shape = static_shape(var.ty)
    for axis, stride in zip((2, 3), strides, strict=True):
        if isinstance(value, Padded) and stride > 1:
            inside = _narrow_padded(unit, value, axis, 0, shape[axis], stride)
            if inside is None:
                return False
            value = inside
        else:
            value = narrow(unit, value, axis, 0, shape[axis], stride)
    unit.bind_view(var, value)
    return True


def split(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.split along any axis: views, or parts of a convolution's channels."""
    value = unit.value(call.args[0])
    axis = int(call.attrs.axis) % len(value.shape)
    begin = 0
    slices: list[Value] = []
    for field in var.ty.fields:
        count = static_shape(field)[axis]
        slices.append(narrow(unit, value, axis, begin, count, 1))
        begin += count
    unit.bind(var, slices)
    return True


def strided_slice(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.strided_slice with positive steps; return False for others."""
    fields = [[extent_in_relax(v) for v in arg.fields] for arg in call.args[1:]]
    axes, begins = fields[0], fields[1]
    steps = fields[3] if len(fields) > 3 else [1] * len(axes)
    value = unit.value(call.args[0])
    if any(step < 1 for step in steps):
        return False
    result = static_shape(var.ty)
    for axis, begin, step in zip(axes, begins, steps, strict=True):
        axis %= len(result)
        extent = value.shape[axis]
        if begin != 0:
            begin = min(begin + extent if begin < 0 else begin, extent)
            # An open begin may be 0, of which only this comparison is decided.
            begin = 0 if begin < 0 else begin
        if isinstance(value, Widened) and axis == 1 and step == 1:
            shifted = _shifted(value, begin, result[axis])
            if shifted is not None:
                value = shifted
                continue
        value = narrow(unit, value, axis, begin, result[axis], step)
    unit.bind_view(var, value)
    return True


def _shifted(value: Widened, begin: int, count: int) -> Lazy | None:
    """Return channels of a zero-extended value as its inner value moved along the channels.

    Zeros move in. None unless ``count`` is the inner value's number of channels.
    """
    inner = value.inner
    if count != inner.shape[1] or not isinstance(inner, (Lazy, Stored)):
        return None
    expr = as_expression(inner).expr
    if any(windows(expr)):
        return None
    by = begin - value.before
    return Lazy(("window", expr, -by, by, count), inner.shape)


def pad(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.nn.pad with zeros; convolutions absorb padding of rows and columns."""
    widths = [int(w) for w in call.attrs.pad_width]
    value = unit.value(call.args[0])
    zero = str(call.attrs.pad_mode) == "constant" and float(call.attrs.pad_value) == 0.0
    if len(value.shape) != 4 or not zero or min(widths) < 0:
        return False
    if isinstance(value, Arranged):
        value = in_memory(unit, value)
    if not any(widths[:2] + widths[4:]):
        unit.bind(var, Widened(value, widths[2], static_shape(var.ty), unit.home(var)))
        return True
    if any(widths[:4]):
        return False
    pads = (widths[4], widths[6], widths[5], widths[7])
    unit.bind(var, Padded(value, pads, static_shape(var.ty), unit.home(var)))
    return True


def reshape(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan an operator that keeps the elements and their order; a view where strides allow."""
    value = unit.value(call.args[0])
    shape = static_shape(var.ty)
    if isinstance(value, Stored) and is_row_major(value):
        unit.bind(var, Stored(value.storage, shape, row_major(shape), value.offset))
        return True
    if isinstance(value, Stored) and _only_ones_differ(value.shape, shape):
        unit.bind(var, _with_ones(value, shape))
        return True
    if len(value.shape) > 4:
        return False
    if isinstance(value, Lazy) and has_an_axis_more(shape, value.shape):
        unit.bind(var, Lazy(value.expr, shape))
        return True
    if isinstance(value, Arranged):
        value = in_memory(unit, value)
    if isinstance(value, Pending) and _only_ones_differ(value.shape, shape):
        home = _transposed_home(unit, var)
        target = None if home is None else _with_ones(home, value.shape)
        channels = unit.drafts[value.kernel].channel_axis
        if target is not None and is_same(four(target.strides, 0)[channels], 1):
            # Its kernel stores vectors there, so that nothing is left to transpose.
            write(unit, value, target)
            unit.bind(var, home)
            return True
    home = unit.home(var)
    if home is None or not is_row_major(home):
        if home is not None and isinstance(value, Lazy) and _may_move(value, shape):
            unit.bind(var, Lazy(_moved(value.expr, value.shape, shape), shape, home))
            return True
        home = unit.scratch(shape, layout="")
    target = Stored(home.storage, value.shape, row_major(value.shape), home.offset)
    write(unit, value, target)
    unit.bind(var, home)
    return True


def _may_move(value: Lazy, shape: tuple[int, ...]) -> bool:
    """Return whether an expression has a form of another shape: windows keep their axis."""
    differs = len(shape) <= 4 and _only_ones_differ(value.shape, shape)
    return differs and not any(windows(value.expr))


def _moved(expr: Expr, before: tuple[int, ...], after: tuple[int, ...]) -> Expr:
    """Return an expression of a value of one shape for another that differs in ones only."""

    def moved(at: Access) -> Access:
        strides = iter([s for s, e in zip(at.strides, four(before, 1), strict=True) if e != 1])
        a, b, c, d = (next(strides) if extent != 1 else 0 for extent in four(after, 1))
        return replace(at, strides=(a, b, c, d))

    return map_accesses(expr, moved)


def _transposed_home(unit: UnitDraft, var: Any) -> Stored | None:
    """Return where a variable lies if the output that alone reads it transposed is in its place."""
    name, call = unit.only_reader(var) or (None, None)
    home = unit.home(name)
    if home is None or not isinstance(call, relax.Call):
        return None
    if operator_name(call) != "relax.permute_dims":
        return None
    axes = _order(call, len(home.shape))
    shape, strides = (
        tuple(extents[axes.index(axis)] for axis in range(len(axes)))
        for extents in (home.shape, home.strides)
    )
    return Stored(home.storage, shape, strides, home.offset, home.dtype)


def _with_ones(value: Stored, shape: tuple[int, ...]) -> Stored:
    """Return a view whose shape differs in axes of extent 1 only."""
    strides = iter([s for s, e in zip(value.strides, value.shape, strict=True) if e != 1])
    reshaped = tuple(next(strides) if extent != 1 else 0 for extent in shape)
    return Stored(value.storage, shape, reshaped, value.offset, value.dtype)


def _order(call: Any, rank: int) -> list[int]:
    """Return which axis of its operand each axis of relax.permute_dims is."""
    axes = call.attrs.axes
    return list(reversed(range(rank))) if axes is None else [int(axis) for axis in axes]


def has_an_axis_more(shape: tuple[int, ...], image: tuple[int, ...]) -> bool:
    """Return whether a shape is an image's with one more axis, of extent 1, after the batch."""
    return len(image) == 4 and len(shape) == 5 and shape == (image[0], 1, *image[1:])


def transpose(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.permute_dims as a view with other strides."""
    value = unit.value(call.args[0])
    if len(value.shape) > 4:
        return False
    stored = in_memory(unit, value)
    order = _order(call, len(stored.shape))
    permuted = [(stored.shape[axis], stored.strides[axis]) for axis in order]
    shape, strides = (tuple(extents) for extents in zip(*permuted, strict=True))
    unit.bind(var, Stored(stored.storage, shape, strides, stored.offset, stored.dtype))
    return True


def broadcast(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.broadcast_to as a view that repeats elements."""
    shape = static_shape(var.ty)
    stored = in_memory(unit, unit.value(call.args[0]), "")
    added = len(shape) - len(stored.shape)
    repeated = (extent == 1 for extent in stored.shape)
    own = (0 if once else stride for once, stride in zip(repeated, stored.strides, strict=True))
    strides = (*(0,) * added, *own)
    unit.bind(var, Stored(stored.storage, shape, strides, stored.offset, stored.dtype))
    return True


def _only_ones_differ(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return [e for e in a if e != 1] == [e for e in b if e != 1]


def squeeze(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.squeeze or relax.expand_dims as a reshape, also of values not stored yet."""
    value = unit.value(call.args[0])
    shape = static_shape(var.ty)
    if isinstance(value, Lazy):
        wide, image = sorted((value.shape, shape), key=len, reverse=True)
        if has_an_axis_more(wide, image):
            unit.bind(var, Lazy(value.expr, shape, unit.home(var)))
            return True
        if len(value.shape) > 4:
            return False
    return reshape(unit, var, call)
