"""Contractions of integers: which these are, and the two kernels that compute one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from runtime_ext.kernels.cutter import Cutter
from runtime_ext.kernels.expression import ACC, Access, Expr
from runtime_ext.kernels.integer_contraction import IntegerContraction, IntegerKernel, Narrowing
from runtime_ext.kernels.spec import Contraction, accesses
from runtime_ext.units.integers import RULES, Bounds
from runtime_ext.units.pixel_rows import merge_rows
from runtime_ext.units.values import Storage
from tvm_ios.program.constant_transform import ParamTransform, packing

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
    whole = merge_rows(spec)
    even = whole.channels + whole.channels % 2
    channels = even * whole.groups
    rows, columns = whole.window.input
    shape = (whole.batch, rows, columns, channels)
    storages.append(Storage("scratch", 0, shape, "int16"))
    narrow = len(storages) - 1
    first = Narrowing(
        (source.shape, shape),
        whole.batch,
        (rows, columns),
        whole.channels * whole.groups,
        replace(whole.data, buffer=0),
        whole.prologue,
    )
    # The float data are read by the second kernel only if a statement adds them.
    read = {access.buffer for access in accesses(whole.statements)} | {whole.weight}
    used = sorted(read)

    def at(access: Access) -> Access:
        return replace(access, buffer=1 + used.index(access.buffer))

    pairs = replace(
        whole,
        channels=even // 2,
        data=Access(0, 0, (rows * columns * channels, columns * channels, channels, 2)),
        prologue=ACC,
        weight=1 + used.index(whole.weight),
        parts=whole.parts if whole.groups == 1 else whole.parts * whole.groups,
        statements=tuple(statement.mapped(at) for statement in whole.statements),
    )
    pairs = replace(pairs, blocking=cutter.blocking(pairs))
    _pack(weight, pairs.parts, cutter.width(pairs.blocking))
    places = (narrow, *(order[buffer] for buffer in used))
    pairs = replace(pairs, buffers=tuple(storages[place].shape for place in places))
    return [
        (first, (order[spec.data.buffer], narrow)),
        (IntegerContraction(pairs), places),
    ]


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


def _pack(weight: Storage, parts: Sequence[int], width: int) -> None:
    """Pack weights in blocks, pairs of input channels next to each other, in 16 bits."""
    steps: list[tuple[object, ...]] = []
    shape = weight.shape
    if len(shape) == 2:
        shape = (shape[1], shape[0], 1, 1)
        steps += [("transpose", (1, 0)), ("reshape", shape)]
    if shape[1] % 2:
        swap = ("transpose", (1, 0, 2, 3))
        steps += [swap, ("pad_parts", (shape[1],), 2), swap]
        shape = (shape[0], shape[1] + 1, *shape[2:])
    pack = packing(shape, parts, width)
    blocks, rows, columns, channels, block = pack.shape(shape)
    steps += [
        *pack.steps,
        ("reshape", (blocks, rows, columns, channels // 2, 2, block)),
        ("transpose", (0, 1, 2, 3, 5, 4)),
        ("astype", "int16"),
    ]
    weight.transform = ParamTransform(tuple(steps))
    weight.shape = (blocks, rows, columns, channels // 2, block, 2)
    weight.dtype = "int16"
