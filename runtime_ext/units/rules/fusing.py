"""Fuse element-wise operators: into the kernel that makes an operand, or with one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tvm import relax

from runtime_ext.kernels.expression import Expr, element_wise, is_element_wise, loads, size, windows
from runtime_ext.kernels.relax_function import is_float, scalar, static_shape
from runtime_ext.units.storing import in_memory
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import (
    Interleaved,
    Lazy,
    Padded,
    Pending,
    Stored,
    Value,
    Widened,
    access,
)

#: Expressions larger than this are stored before they are used again.
_LARGEST = 64


def element_wise_rule(unit: UnitDraft, var: Any, name: str, call: Any) -> bool:
    """Fuse an element-wise operator into the kernel of an operand; False for other operators."""
    if not is_element_wise(name):
        return False
    shape = static_shape(var.ty)
    if len(shape) > 4:
        return False
    operands: list[Expr | Value] = []
    for arg in call.args:
        number = scalar(arg)
        if number is not None:
            operands.append(("const", number))
            continue
        if not isinstance(arg, relax.Var) or not is_float(arg.ty):
            return False
        operands.append(unit.value(arg))
    if name == "relax.nn.prelu" and not isinstance(operands[1], tuple):
        operands[1] = _along(in_memory(unit, operands[1]), int(call.attrs.axis) % len(shape), shape)
    kernel = _host(unit, operands, shape)
    exprs = [o if isinstance(o, tuple) else _operand(unit, o, shape, kernel) for o in operands]
    if any(e is None for e in exprs):
        return False
    expr = element_wise(name, [e for e in exprs if e is not None], call.attrs)
    if expr is None:
        return False
    if kernel is not None:
        unit.bind(var, Pending(kernel.kernel, expr, shape, kernel.begin, unit.home(var)))
    else:
        lazy = Lazy(expr, shape, unit.home(var))
        unit.bind(var, in_memory(unit, lazy) if size(expr) > _LARGEST else lazy)
    return True


def _host(
    unit: UnitDraft, operands: Sequence[Expr | Value], shape: tuple[int, ...]
) -> Pending | None:
    """Return the kernel in whose epilogue an element-wise operator can run, or None."""
    pending = [o for o in operands if isinstance(o, Pending) and o.shape == shape]
    if not pending:
        return None
    host = max(pending, key=lambda p: p.kernel)
    for other in operands:
        match other:
            case Pending() if other.kernel == host.kernel:
                if other.shape != shape or other.begin != host.begin:
                    return None
            case Stored():
                if unit.storages[other.storage].producer >= host.kernel:
                    return None
            case Lazy():
                reads = [a.buffer for a in loads(other.expr)]
                windowed = any(windows(other.expr))
                if (
                    other.shape != shape
                    or windowed
                    or any(unit.storages[s].producer >= host.kernel for s in reads)
                ):
                    return None
            case Padded() | Widened() | Interleaved():
                return None
            case _:
                pass
    return host


def _along(numbers: Stored, axis: int, shape: tuple[int, ...]) -> Stored:
    """Return the vector (or single number) as a view that varies along one axis of a shape."""
    extents, strides = [1] * len(shape), [0] * len(shape)
    extents[axis], strides[axis] = numbers.shape[0], numbers.strides[0]
    return replace(numbers, shape=tuple(extents), strides=tuple(strides))


def _operand(
    unit: UnitDraft, value: Value, shape: tuple[int, ...], host: Pending | None
) -> Expr | None:
    if isinstance(value, Pending) and host is not None and value.kernel == host.kernel:
        return value.expr
    if isinstance(value, Lazy) and value.shape == shape:
        return value.expr
    read = access(in_memory(unit, value), shape)
    return ("load", read) if read is not None else None
