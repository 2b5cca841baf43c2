"""Rules of what attention is made of: products of data, softmax, layer normalisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runtime_ext.kernels.spec import Normalisation, Product
from runtime_ext.units.draft import PLAIN
from runtime_ext.units.relax_function import static_shape
from runtime_ext.units.rules.reading import read_input
from runtime_ext.units.values import Padded, Pending, access, four

if TYPE_CHECKING:
    from runtime_ext.units.planner import Planner


def product(planner: Planner, var: Any, call: Any) -> bool:
    """relax.matmul of data with data of any strides; vectors lie along the second's columns."""
    shape = static_shape(var.ty)
    first, second = (planner.stored(planner.value(argument)) for argument in call.args)
    ranks = {len(shape), len(first.shape), len(second.shape)}
    if not ranks <= {2, 3, 4} or min(len(first.shape), len(second.shape)) < 2:
        return False
    if second.strides[-1] != 1 and second.shape[-1] > 1:
        return False
    outer = shape[:-2]
    data = access(first, (*outer, *first.shape[-2:]))
    other = access(second, (*outer, *second.shape[-2:]))
    if data is None or other is None:
        return False
    n, h, rows, columns = four(shape, 1)
    anchor = Product((), (n, h, rows), columns, first.shape[-1], data, other, ())
    planner.bind_anchor(var, anchor, PLAIN)
    return True


def softmax(planner: Planner, var: Any, call: Any) -> bool:
    """relax.nn.softmax along the last axis."""
    return _normalise(planner, var, call, "softmax", [int(call.attrs.axis)], 0.0)


def layer_norm(planner: Planner, var: Any, call: Any) -> bool:
    """relax.nn.layer_norm over the last axis, with constant scale and bias."""
    axes = [int(axis) for axis in call.attrs.axes]
    if any(planner.constant(parameter) < 0 for parameter in call.args[1:]):
        return False
    if not _normalise(planner, var, call, "layer_norm", axes, float(call.attrs.epsilon)):
        return False
    made = planner.value(var)
    assert isinstance(made, Pending)
    for name, parameter in zip(("mul", "add"), call.args[1:], strict=True):
        read = access(planner.stored(planner.value(parameter)), made.shape)
        assert read is not None
        made.expr = (name, made.expr, ("load", read))
    return True


def _normalise(
    planner: Planner, var: Any, call: Any, kind: str, axes: list[int], epsilon: float
) -> bool:
    value = planner.value(call.args[0])
    shape = value.shape
    if len(shape) > 4 or [axis % len(shape) for axis in axes] != [len(shape) - 1]:
        return False
    if isinstance(value, Padded):
        value = planner.stored(value)
    data, prologue, _, _ = read_input(planner, value, True)
    n, h, w, count = four(shape, 1)
    anchor = Normalisation((), kind, (n, h, w), count, data, prologue, epsilon, ())
    planner.bind_anchor(var, anchor, PLAIN)
    return True
