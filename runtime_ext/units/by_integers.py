"""Contractions of integers: which these are, and the two kernels that compute one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from runtime_ext.kernels.cutter import Cutter
from runtime_ext.kernels.expression import ACC, Expr
from runtime_ext.kernels.integer_contraction import IntegerContraction, IntegerKernel
from runtime_ext.kernels.spec import Contraction
from runtime_ext.units.in_pairs import in_pairs
from runtime_ext.units.integers import RULES, Bounds
from runtime_ext.units.values import Storage

#: A kernel, and the storages that its buffers are.
Placed = tuple[IntegerKernel, tuple[int, ...]]
#: The largest factor that 16 bits hold, and the largest sum that 32 bits do, without their signs.
_FACTOR, _SUM = 32767, 2**31 - 1


def by_integers(
    spec: Contraction,
    order: Sequence[int],
    storages: list[Storage],
    bounds: Sequence[Bounds | None],
    cutter: Cutter,
) -> list[Placed] | None:
    """A contraction as a kernel that narrows its data and one that multiplies integers.

    Parameters
    ----------
    spec
        Not cut yet; its weights are as the model has them.
    order
        The storages that its buffers are.
    storages
        The unit's buffers. The weights' one gets the transform; a new one holds the narrow data.
    bounds
        For each parameter of the unit the integers that it holds.
    cutter
        Cuts the contraction of pairs of channels.

    Returns
    -------
    list or None
        None if data or weights are not known to be integers that are small enough.
    """
    source, weight = storages[order[spec.data.buffer]], storages[order[spec.weight]]
    if not _fits(spec, source, weight, bounds):
        return None
    first, (pairs, places) = in_pairs(spec, order, storages, cutter, "int16")
    return [first, (IntegerContraction(pairs), places)]


def _fits(
    spec: Contraction, source: Storage, weight: Storage, bounds: Sequence[Bounds | None]
) -> bool:
    if not bounds or source.role != "input" or weight.role != "constant":
        return False
    if weight.transform.steps or (spec.groups > 1 and spec.channels % 2):
        return False
    data = bounds[source.number]
    values = None if data is None else _after(spec.prologue, data)
    factors = bounds[weight.number]
    if values is None or factors is None:
        return False
    largest = [max(map(abs, pair)) for pair in (values, factors)]
    terms = spec.channels * prod(spec.window.kernel)
    return max(largest) <= _FACTOR and prod(largest) * terms <= _SUM


def _after(expr: Expr, value: Bounds) -> Bounds | None:
    """The integers that a prologue makes of those of a tensor; None if it makes others."""
    if expr == ACC:
        return value
    if expr[0] == "const":
        number = float(expr[1])
        return (number, number) if number.is_integer() else None
    rule = RULES.get(_RULE_OF.get(expr[0], ""))
    if rule is None:
        return None
    operands = [_after(operand, value) for operand in expr[1:]]
    return None if None in operands else rule(*operands)


_RULE_OF = {
    "add": "relax.add",
    "max": "relax.maximum",
    "min": "relax.minimum",
    "sub": "relax.subtract",
}
