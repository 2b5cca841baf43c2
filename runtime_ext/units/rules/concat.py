"""Rule of concatenations: every operand is written into its slice of the result."""

from __future__ import annotations

from math import prod
from typing import Any

from tvm import relax

from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.relax_function import operator_name, static_shape
from runtime_ext.kernels.spec import Statement
from runtime_ext.units.kernel_draft import KernelDraft
from runtime_ext.units.storing import in_memory, write
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import Arranged, Lazy, Pending, Stored, as_expression, four
from tvm_ios.shapes.extent import is_open

#: The most operands of a kernel: TVM's passes recurse over its buffers.
_MOST = 64


def concat(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.concat: every operand is written into its slice of the result."""
    shape = static_shape(var.ty)
    if len(shape) > 4 or prod(shape) == 0:
        return False
    axis = int(call.attrs.axis) % len(shape)
    parts = [part for field in call.args[0].fields for part in unit.pieces(field)]
    reader = unit.only_reader(var)
    if reader is not None and _joins(reader[1], axis):
        # Leave it to the concatenation that reads this one: it writes each part once.
        unit.bind(var, parts)
        return True
    target = unit.home(var) or unit.scratch(shape)
    if axis == len(shape) - 1 and is_open(shape[axis]):
        # In rows of whole vectors a part would be written over the begin of the next.
        target = unit.scratch(shape, layout="")
    element_wise: list[tuple[Lazy, Stored]] = []
    begin = 0
    for part in parts:
        slice_ = Stored(
            target.storage,
            part.shape,
            target.strides,
            target.offset + begin * target.strides[axis],
        )
        begin += part.shape[axis]
        if unit.in_place(part):
            continue
        if isinstance(part, Arranged):
            part = in_memory(unit, part)
        if isinstance(part, Pending):
            write(unit, part, slice_)
            continue
        element_wise.append((as_expression(part), slice_))
    axes = unit.axes(target)
    if axis + 4 - len(shape) == axes[3]:
        for at in range(0, len(element_wise), _MOST):
            _one_kernel(unit, element_wise[at : at + _MOST], axes)
    else:
        for part, slice_ in element_wise:
            write(unit, part, slice_)
    unit.bind(var, target)
    return True


def _joins(call: Any, axis: int) -> bool:
    """Return whether a call is a concatenation along this axis."""
    if not isinstance(call, relax.Call) or operator_name(call) != "relax.concat":
        return False
    return int(call.attrs.axis) % len(static_shape(call.args[0].fields[0].ty)) == axis


def _one_kernel(
    unit: UnitDraft, parts: list[tuple[Lazy, Stored]], axes: tuple[int, int, int, int]
) -> None:
    """Add one kernel that writes several operands in one pass over the pixels."""
    statements = [
        Statement(
            part.expr,
            Access(place.storage, place.offset, four(place.strides, 0)),
            0,
            four(part.shape, 1)[axes[3]],
        )
        for part, place in parts
    ]
    number = unit.add(KernelDraft(None, four(parts[0][0].shape, 1), axes, statements))
    unit.written(parts[0][1], number)
