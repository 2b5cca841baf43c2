"""Rules of channel shuffles: a reshape, a transpose and a reshape that interleave groups."""

from __future__ import annotations

from typing import Any

from runtime_ext.kernels.relax_function import operator_name, static_shape
from runtime_ext.units.rules import views
from runtime_ext.units.rules.concat import concat as concatenated
from runtime_ext.units.storing import in_memory
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import Interleaved, Lazy, Value


def concat(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.concat; if a channel shuffle follows, interleave the operands directly."""
    fields = list(call.args[0].fields)
    shapes = {static_shape(field.ty) for field in fields}
    reader = unit.only_reader(var)
    pieces = [unit.pieces(field) for field in fields]
    unjoined = all(len(values) == 1 for values in pieces)
    if reader is not None and unjoined and len(shapes) == 1 and int(call.attrs.axis) == 1:
        chain = _chain(unit, *reader)
        if chain is not None and static_shape(chain[0].ty)[1] == len(fields):
            _interleave(unit, [value for (value,) in pieces], (var, *chain))
            return True
    return concatenated(unit, var, call)


def reshape(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.reshape, and the channel shuffle that it may begin."""
    chain = _chain(unit, var, call)
    if chain is None:
        return views.reshape(unit, var, call)
    value = unit.value(call.args[0])
    groups, count = static_shape(var.ty)[1:3]
    parts = [views.narrow(unit, value, 1, i * count, count, 1) for i in range(groups)]
    _interleave(unit, parts, chain)
    return True


def _chain(unit: UnitDraft, var: Any, call: Any) -> tuple[Any, Any, Any] | None:
    """Return the variables of a channel shuffle that begins with this reshape, or None."""
    if operator_name(call) != "relax.reshape":
        return None
    image, apart = static_shape(call.args[0].ty), static_shape(var.ty)
    if len(image) != 4 or len(apart) != 5 or (apart[0], *apart[3:]) != (image[0], *image[2:]):
        return None
    transpose = unit.only_reader(var)
    if transpose is None or operator_name(transpose[1]) != "relax.permute_dims":
        return None
    axes = transpose[1].attrs.axes
    if axes is None or [int(axis) for axis in axes] != [0, 2, 1, 3, 4]:
        return None
    second_reshape = unit.only_reader(transpose[0])
    if second_reshape is None or operator_name(second_reshape[1]) != "relax.reshape":
        return None
    return (
        (var, transpose[0], second_reshape[0])
        if static_shape(second_reshape[0].ty) == image
        else None
    )


def _interleave(unit: UnitDraft, values: list[Value], variables: tuple[Any, ...]) -> None:
    """Bind all variables of a shuffle to its result; only the last of them is read."""
    parts = tuple(v if isinstance(v, Lazy) else in_memory(unit, v) for v in values)
    last = variables[-1]
    shuffled = Interleaved(parts, static_shape(last.ty), unit.home(last))
    for var in variables:
        unit.bind(var, shuffled)
