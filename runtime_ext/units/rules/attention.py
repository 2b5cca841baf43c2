"""Rules of attention's operators: products of data, softmax, layer normalisation."""

from __future__ import annotations

from typing import Any

from runtime_ext.kernels.relax_function import static_shape
from runtime_ext.kernels.spec import Normalisation, Product
from runtime_ext.units.kernel_draft import PLAIN
from runtime_ext.units.rules.reading import read_input
from runtime_ext.units.storing import in_memory
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import Padded, Pending, access, four


def product(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.matmul of data with data; vectors lie along the second operand's columns."""
    shape = static_shape(var.ty)
    first, second = (in_memory(unit, unit.value(argument), "") for argument in call.args)
    ranks = {len(shape), len(first.shape), len(second.shape)}
    if not ranks <= {2, 3, 4} or min(len(first.shape), len(second.shape)) < 2:
        return False
    if second.strides[-1] != 1 and second.shape[-1] != 1:
        return False
    outer = shape[:-2]
    data = access(first, (*outer, *first.shape[-2:]))
    other = access(second, (*outer, *second.shape[-2:]))
    if data is None or other is None:
        return False
    n, h, rows, columns = four(shape, 1)
    anchor = Product((), (n, h, rows), columns, first.shape[-1], data, other, ())
    unit.bind_anchor(var, anchor, PLAIN)
    return True


def softmax(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.nn.softmax along the last axis; return False for others."""
    return _normalise(unit, var, call, "softmax", [int(call.attrs.axis)], 0.0)


def layer_norm(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.nn.layer_norm over the last axis, with constant scale and bias; else False."""
    axes = [int(axis) for axis in call.attrs.axes]
    if any(unit.constant(parameter) < 0 for parameter in call.args[1:]):
        return False
    if not _normalise(unit, var, call, "layer_norm", axes, float(call.attrs.epsilon)):
        return False
    normalised = unit.value(var)
    assert isinstance(normalised, Pending)
    for name, parameter in zip(("mul", "add"), call.args[1:], strict=True):
        read = access(in_memory(unit, unit.value(parameter)), normalised.shape)
        assert read is not None
        normalised.expr = (name, normalised.expr, ("load", read))
    return True


def _normalise(
    unit: UnitDraft, var: Any, call: Any, kind: str, axes: list[int], epsilon: float
) -> bool:
    value = unit.value(call.args[0])
    shape = value.shape
    if len(shape) > 4 or [axis % len(shape) for axis in axes] != [len(shape) - 1]:
        return False
    if isinstance(value, Padded):
        value = in_memory(unit, value)
    data, prologue, _, _ = read_input(unit, value, True, "")
    n, h, w, count = four(shape, 1)
    anchor = Normalisation((), kind, (n, h, w), count, data, prologue, epsilon, ())
    unit.bind_anchor(var, anchor, PLAIN)
    return True
