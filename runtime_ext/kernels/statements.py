"""Apply prologues to values that kernels read, and evaluate and store their statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import prod
from typing import Any

from tvm import tirx

from runtime_ext.kernels.code import Code, Index, is_in_bytes, load
from runtime_ext.kernels.expression import Access, Expr, emit, loads, operations, reads_nothing
from runtime_ext.kernels.open_shapes import INDEX, is_multiple
from runtime_ext.kernels.quotients import with_reciprocals
from runtime_ext.kernels.spec import PhysicalShape, Statement, extents
from runtime_ext.kernels.transcendental import VECTORISED
from tvm_ios.program.program import LINE
from tvm_ios.shapes.extent import is_open

#: A value to store: the statement, its pixel and channel, the anchor's value, and the lanes.
Store = tuple[Statement, tuple[Index, Index, Index], Index, Any, int]
#: This many vectors are computed side by side if each takes at least this many operations.
_SIDE_BY_SIDE, _LONG = 4, 8


def store_vectors(
    code: Code, buffers: list[Any], stores: Sequence[Store], shift: Index = 0
) -> None:
    """Evaluate statements for several vectors and store them; see :func:`store_statement`."""
    together = vectors_together(store[0] for store in stores)
    for first in range(0, len(stores), together):
        code.side_by_side(
            partial(store_statement, code, buffers, *store, shift)
            for store in stores[first : first + together]
        )


def vectors_together(statements: Iterable[Statement]) -> int:
    """Return for how many vectors to interleave statements: several if one is long.

    Each of a long one's operations waits for the one before.
    """
    for statement in statements:
        names = list(operations(statement.value))
        if len(names) >= _LONG or not VECTORISED.keys().isdisjoint(names):
            return _SIDE_BY_SIDE
    return 1


def store_statement(
    code: Code,
    buffers: list[Any],
    statement: Statement,
    grid: tuple[Index, Index, Index],
    channel: Index,
    acc: Any,
    lanes: int,
    shift: Index = 0,
) -> None:
    """Evaluate a statement for one vector of channels and store it.

    ``shift`` is added to the offset, for targets that hold only a part of the grid.
    """
    if code.stored is not None and not reads_in_order(statement.value):
        # Elements that are not stored may not be read either.
        count, code.stored = code.stored, None
        (kept,) = code.accumulators(1, lanes)
        if acc is not None:
            code.store(kept, 0, acc, lanes)
        for lane in range(lanes):
            one = None if acc is None else load(kept, lane, 1)
            with code.branch(lane < count):
                store_statement(code, buffers, statement, grid, channel + lane, one, 1, shift)
        code.stored = count
        return
    target = code.access(statement.target)
    buffer, expr = buffers[target.buffer], _without_division(code, statement.value)
    # A clipped value fits a byte, and is rounded when it is stored.
    nearest = is_in_bytes(buffer) and expr[0] == "round" and expr[1][0] == "min"
    value = evaluate(code, buffers, expr[1] if nearest else expr, grid, channel, acc, lanes)
    at = element_offset(target, grid, channel) + shift
    if code.stored is None:
        code.store(buffer, at, value, lanes, target.strides[3], nearest=nearest)
    else:
        stored = code.stored
        code.store_first(stored, buffer, at, value, lanes, target.strides[3], nearest=nearest)


def evaluate(
    code: Code,
    buffers: list[Any],
    expr: Expr,
    grid: tuple[Index, Index, Index],
    channel: Index,
    acc: Any,
    lanes: int,
) -> Any:
    """Return the value of an expression for one vector of channels."""

    def read(access: Access) -> Any:
        access = code.access(access)
        at = element_offset(access, grid, channel)
        return load(buffers[access.buffer], at, lanes, access.strides[3])

    return emit(_without_division(code, expr), acc, read, code.arithmetic(lanes))


def element_offset(access: Access, grid: tuple[Index, Index, Index], channel: Index) -> Index:
    """Return the element of the access's buffer that holds a channel of a pixel."""
    sn, sh, sw, sc = access.strides
    return access.offset + grid[0] * sn + grid[1] * sh + grid[2] * sw + channel * sc


def is_padded(access: Access, grid: Sequence[int], shape: PhysicalShape) -> bool:
    """Return whether the rows of an access lie in whole cache lines.

    What is behind an open number of elements of a row is then no element of another.
    """
    outer = zip(access.strides[:3], grid, strict=True)
    # An extent that is not surely 1 has the stride of a next row.
    steps = [stride for stride, extent in outer if is_open(extent) or extent != 1]
    whole = (prod(extents(shape)), access.offset, *steps)
    in_rows = is_in_order(access) and access.strides[3] == 1
    return in_rows and all(is_multiple(n, LINE) for n in whole)


def reads_in_order(expr: Expr) -> bool:
    """Return whether an expression reads adjacent elements of each buffer, or the same ones."""
    return all(is_in_order(access) for access in loads(expr))


def is_in_order(access: Access) -> bool:
    """Return whether adjacent elements of a vector are adjacent in memory, or one."""
    return not is_open(access.strides[3]) and access.strides[3] in (0, 1)


def activate(code: Code, prologue: Expr, value: Any, lanes: int) -> Any:
    """Apply a prologue to a value that was read."""
    prologue = _without_division(code, prologue)
    return emit(prologue, value, reads_nothing, code.arithmetic(lanes))


def _without_division(code: Code, expr: Expr) -> Expr:
    return with_reciprocals(expr) if code.fuses else expr


def divide(code: Code, name: str, value: Index, by: int, extent: int) -> tuple[Index, Index]:
    """Return quotient and remainder of a number below ``by * extent``; plain ints if known."""
    if not is_open(by) and by == 1:
        return value, 0
    if not is_open(extent) and extent == 1:
        return 0, value
    if code.index == INDEX:
        # By a number that is not known the remainder is cheaper as what the quotient leaves.
        divisor = code.extent(by)
        quotient = code.bind(name, tirx.truncdiv(value, divisor))
        return quotient, code.bind(name + "_rest", value - quotient * divisor)
    return (
        code.bind(name, tirx.floordiv(value, by)),
        code.bind(name + "_rest", tirx.floormod(value, by)),
    )
