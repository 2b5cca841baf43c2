"""Channel shuffles: a reshape, a transpose and a reshape that interleave groups of channels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime_ext.kernels.expression import Access, substitute, windows
from runtime_ext.kernels.spec import Interleave
from runtime_ext.units.draft import IMAGE, Draft
from runtime_ext.units.relax_function import operator_name, static_shape
from runtime_ext.units.rules import views
from runtime_ext.units.values import Interleaved, Lazy, Stored, Value, access

if TYPE_CHECKING:
    from runtime_ext.units.planner import Planner

#: Vectors of so many groups can be interleaved in registers.
_IN_REGISTERS = 4


def concat(planner: Planner, var: Any, call: Any) -> bool:
    """relax.concat; the operands of a shuffle of as many groups are interleaved at once."""
    fields = list(call.args[0].fields)
    shapes = {static_shape(field.ty) for field in fields}
    reader = planner.only_reader(var)
    pieces = [planner.pieces(field) for field in fields]
    whole = all(len(own) == 1 for own in pieces)
    if reader is not None and whole and len(shapes) == 1 and int(call.attrs.axis) == 1:
        chain = _chain(planner, *reader)
        if chain is not None and static_shape(chain[0].ty)[1] == len(fields):
            _interleave(planner, [value for (value,) in pieces], (var, *chain))
            return True
    return views.concat(planner, var, call)


def reshape(planner: Planner, var: Any, call: Any) -> bool:
    """relax.reshape, which may begin a shuffle."""
    chain = _chain(planner, var, call)
    if chain is None:
        return views.reshape(planner, var, call)
    value = planner.value(call.args[0])
    groups, count = static_shape(var.ty)[1:3]
    parts = [views.narrow(planner, value, 1, i * count, count, 1) for i in range(groups)]
    _interleave(planner, parts, chain)
    return True


def _chain(planner: Planner, var: Any, call: Any) -> tuple[Any, Any, Any] | None:
    """The variables of a shuffle that begins with this reshape of an image."""
    if operator_name(call) != "relax.reshape":
        return None
    image, apart = static_shape(call.args[0].ty), static_shape(var.ty)
    if len(image) != 4 or len(apart) != 5 or (apart[0], *apart[3:]) != (image[0], *image[2:]):
        return None
    turned = planner.only_reader(var)
    if turned is None or operator_name(turned[1]) != "relax.permute_dims":
        return None
    axes = turned[1].attrs.axes
    if axes is None or [int(axis) for axis in axes] != [0, 2, 1, 3, 4]:
        return None
    joined = planner.only_reader(turned[0])
    if joined is None or operator_name(joined[1]) != "relax.reshape":
        return None
    return (var, turned[0], joined[0]) if static_shape(joined[0].ty) == image else None


def _interleave(planner: Planner, values: list[Value], variables: tuple[Any, ...]) -> None:
    """Bind the last of a shuffle's variables, and with it those before, which nothing reads."""
    parts = tuple(v if isinstance(v, Lazy) else planner.stored(v) for v in values)
    last = variables[-1]
    shuffled = Interleaved(parts, static_shape(last.ty), planner.home(last))
    for var in variables:
        planner.bind(var, shuffled)


def store_interleaved(planner: Planner, value: Interleaved) -> Stored:
    """Write the groups, channel by channel in turn."""
    target = value.home or planner.scratch(value.shape)
    groups = len(value.parts)
    exprs = [_readable(part) for part in value.parts]
    image = planner.axes(target) == IMAGE and groups <= _IN_REGISTERS
    if image and not any(any(windows(part.expr)) for part in exprs):
        _in_registers(planner, exprs, target)
        return target
    n, c, h, w = target.strides
    for group, part in enumerate(exprs):
        place = Stored(target.storage, part.shape, (n, c * groups, h, w), target.offset + group * c)
        planner.store(part, place)
    return target


def _readable(part: Stored | Lazy) -> Lazy:
    if isinstance(part, Lazy):
        return part
    read = access(part, part.shape)
    assert read is not None
    return Lazy(("load", read), part.shape)


def _in_registers(planner: Planner, parts: list[Lazy], target: Stored) -> None:
    order: list[int] = []

    def local(at: Access) -> Access:
        if at.buffer not in order:
            order.append(at.buffer)
        n, c, h, w = at.strides
        return Access(order.index(at.buffer), at.offset, (n, h, w, c))

    values = tuple(
        substitute(part.expr, lambda x: ("load", local(x[1])) if x[0] == "load" else x)
        for part in parts
    )
    n, c, h, w = target.strides
    place = local(Access(target.storage, target.offset, (n, c, h, w)))
    batch, count, height, width = parts[0].shape
    shapes = tuple(planner.storages[s].shape for s in order)
    spec = Interleave(shapes, (batch, height, width), values, place, count)
    number = planner.add(Draft(None, (1, 1, 1, 1), IMAGE, generic=(spec, tuple(order))))
    storage = planner.storages[target.storage]
    storage.producer = max(storage.producer, number)
