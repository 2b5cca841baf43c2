"""What every kernel does with a value: activate it when read, store it by its statements."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from runtime_ext.kernels.code import Code, Index, constant, load
from runtime_ext.kernels.expression import Access, Expr, emit
from runtime_ext.kernels.spec import Statement


def store_statement(
    code: Code,
    buffers: list[Any],
    statement: Statement,
    grid: tuple[Index, Index, Index],
    channel: Index,
    acc: Any,
    lanes: int,
) -> None:
    """Evaluate a statement for one vector of channels and store it."""

    def read(access: Access) -> Any:
        at = _offset(access, grid, channel)
        return load(buffers[access.buffer], at, lanes, access.strides[3])

    def keep(value: Any) -> Any:
        return code.keep(value, lanes)

    acc = emit(statement.value, acc, read, lambda c: constant(c, lanes), keep)
    target = statement.target
    code.store(
        buffers[target.buffer], _offset(target, grid, channel), acc, lanes, target.strides[3]
    )


def _offset(access: Access, grid: tuple[Index, Index, Index], channel: Index) -> Index:
    sn, sh, sw, sc = access.strides
    return access.offset + grid[0] * sn + grid[1] * sh + grid[2] * sw + channel * sc


def activate(code: Code, prologue: Expr, value: Any, lanes: int) -> Any:
    """Apply a prologue to what was read."""

    def nothing(_access: Any) -> Any:
        raise AssertionError("a prologue reads nothing but its input")

    def keep(result: Any) -> Any:
        return code.keep(result, lanes)

    return emit(prologue, value, nothing, lambda c: constant(c, lanes), keep)


def divide(code: Code, name: str, value: Index, by: int, extent: int) -> tuple[Index, Index]:
    """Quotient and remainder of a number below ``by * extent``, as plain ints where known."""
    if by == 1:
        return value, 0
    if extent == 1:
        return 0, value
    return (
        code.bind(name, tirx.floordiv(value, by)),
        code.bind(name + "_rest", tirx.floormod(value, by)),
    )
