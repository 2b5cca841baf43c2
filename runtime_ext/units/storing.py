"""Write a unit's values to memory: in the kernel that computes them, or in a new one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from runtime_ext.kernels.expression import Access, map_accesses, windows
from runtime_ext.kernels.generic import Generic
from runtime_ext.kernels.operator_function import astype
from runtime_ext.kernels.spec import Interleave, Statement
from runtime_ext.units.kernel_draft import IMAGE, PLAIN, KernelDraft
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
    in_vectors,
)

#: Vectors of up to this many groups can be interleaved in registers.
_IN_REGISTERS = 4


def in_memory(unit: UnitDraft, value: Value, order: str | None = None) -> Stored:
    """Return the value in memory; if it is not stored, make its kernel store it.

    Values of four axes that are stored now lie in NHWC, unless a kernel of rows makes them or an
    ``order`` is given.
    """
    if isinstance(value, Stored):
        return value
    if value.stored is None:
        if isinstance(value, Interleaved):
            value.stored = _interleaved(unit, value)
        elif isinstance(value, (Padded, Widened)):
            value.stored = _padded(unit, value)
        else:
            if isinstance(value, Pending) and unit.drafts[value.kernel].axes != IMAGE:
                order = ""
            layout = None if order is None else in_vectors(value.shape, order)
            target = value.home or unit.scratch(value.shape, layout=layout)
            write(unit, value, target)
            value.stored = target
    return value.stored


def write(unit: UnitDraft, value: Lazy | Pending | Stored, target: Stored) -> None:
    """Write a value to a place of its shape (or of its number of elements, in order)."""
    if isinstance(value, Stored):
        value = as_expression(value)
    if len(value.shape) > 4:
        value, target = _image(value, target)
    place = Access(target.storage, target.offset, four(target.strides, 0))
    if isinstance(value, Pending):
        draft = unit.drafts[value.kernel]
        count = four(value.shape, 1)[draft.channel_axis]
        draft.statements.append(Statement(value.expr, place, value.begin, count))
        number = value.kernel
    else:
        extents, axes = four(value.shape, 1), unit.axes(target)
        windowed = any(windows(value.expr))
        # Images of one channel, or one pixel, have the same order in both layouts.
        if windowed and len(target.shape) == 4 and target.strides[1] == 1:
            axes = IMAGE
        if windowed and axes != IMAGE:
            # Keep windows along the vectors: otherwise their edges would need a loop of their own.
            between = unit.scratch(value.shape)
            write(unit, value, between)
            write(unit, between, target)
            return
        statement = Statement(value.expr, place, 0, extents[axes[3]])
        number = unit.add(KernelDraft(None, extents, axes, [statement]))
    unit.written(target, number)


def copy(unit: UnitDraft, value: Stored, target: Stored) -> None:
    """Write a stored value to a second place."""
    if value.dtype != "float32":
        _copy_whole(unit, value, target)
        return
    pairs = in_few_axes(value, target) if len(value.shape) > 4 else [(value, target)]
    for part, place in pairs:
        write(unit, part, place)


def _padded(unit: UnitDraft, value: Padded | Widened) -> Stored:
    """Store a padded value: first zeros everywhere, then the inner value."""
    target = value.home or unit.scratch(value.shape)
    write(unit, Lazy(("const", 0.0), value.shape), target)
    inner = value.inner
    if isinstance(value, Widened):
        offset = target.offset + value.before * target.strides[1]
    else:
        top, left, _, _ = value.pads
        offset = target.offset + top * target.strides[2] + left * target.strides[3]
    if isinstance(inner, Arranged):
        inner = in_memory(unit, inner)
    write(unit, inner, Stored(target.storage, inner.shape, target.strides, offset))
    return target


def _interleaved(unit: UnitDraft, value: Interleaved) -> Stored:
    """Store interleaved groups of channels, one channel of each in turn."""
    target = value.home or unit.scratch(value.shape)
    groups = len(value.parts)
    exprs = [as_expression(part) for part in value.parts]
    image = unit.axes(target) == IMAGE and groups <= _IN_REGISTERS
    if image and not any(any(windows(part.expr)) for part in exprs):
        _in_registers(unit, exprs, target)
        return target
    n, c, h, w = target.strides
    for group, part in enumerate(exprs):
        place = Stored(target.storage, part.shape, (n, c * groups, h, w), target.offset + group * c)
        write(unit, part, place)
    return target


def _in_registers(unit: UnitDraft, parts: list[Lazy], target: Stored) -> None:
    order: list[int] = []

    def local(at: Access) -> Access:
        if at.buffer not in order:
            order.append(at.buffer)
        n, c, h, w = at.strides
        return Access(order.index(at.buffer), at.offset, (n, h, w, c))

    values = tuple(map_accesses(part.expr, local) for part in parts)
    n, c, h, w = target.strides
    place = local(Access(target.storage, target.offset, (n, c, h, w)))
    batch, count, height, width = parts[0].shape
    shapes = tuple(unit.storages[s].physical for s in order)
    spec = Interleave(shapes, (batch, height, width), values, place, count)
    number = unit.add_placed(spec, order, IMAGE)
    unit.written(target, number)


def _copy_whole(unit: UnitDraft, value: Stored, target: Stored) -> None:
    """Copy a whole buffer of any type to another one in the IR's layout."""
    source, place = (unit.storages[stored.storage] for stored in (value, target))
    assert unit.is_whole(value)
    assert unit.is_whole(target)
    shapes = ((source.shape, source.dtype), (place.shape, place.dtype))
    spec = Generic(astype(value.shape, value.dtype, value.dtype), shapes)
    place.producer = unit.add_placed(spec, (value.storage, target.storage), PLAIN)


def in_few_axes(value: Stored, target: Stored) -> Iterator[tuple[Stored, Stored]]:
    """Yield pairs of views of at most four axes that cover the same elements in order."""
    axes: list[tuple[int, int, int]] = []
    for extent, *strides in zip(value.shape, value.strides, target.strides, strict=True):
        if extent == 1:
            continue
        if axes and axes[-1][1:] == tuple(extent * stride for stride in strides):
            # In both tensors this axis continues the one before: join them.
            extent *= axes.pop()[0]
        axes.append((extent, *strides))
    while len(axes) < 4:
        axes.insert(0, (1, 0, 0))
    shape, *strides = zip(*axes[-4:], strict=True)
    for index in product(*(range(extent) for extent, _, _ in axes[:-4])):
        first, second = (
            sum(i * axis[place] for i, axis in zip(index, axes, strict=False)) for place in (1, 2)
        )
        yield (
            Stored(value.storage, shape, strides[0], value.offset + first),
            Stored(target.storage, shape, strides[1], target.offset + second),
        )


def _image(value: Lazy | Pending, target: Stored) -> tuple[Lazy, Stored]:
    """Drop the axis of extent 1 after the batch from a value and its target."""
    assert isinstance(value, Lazy)
    assert len(value.shape) == 5
    shape = (value.shape[0], *value.shape[2:])
    strides = (target.strides[0], *target.strides[2:])
    return Lazy(value.expr, shape), Stored(target.storage, shape, strides, target.offset)
