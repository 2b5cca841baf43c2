"""Extents as expressions of TIR, and back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_ios.errors import UserError
from tvm_ios.shapes.extent import (
    Extent,
    Floor,
    Symbol,
    Terms,
    extent_of,
    may_be_positive,
    symbols_of,
)

#: The type of indices of open shapes.
#:
#: Of int32 a sum may overflow, so that LLVM extends the sign of each address of an inner loop.
INDEX = "int64"

#: The symbols of the variables that :func:`variable_of` made.
_SYMBOLS: dict[Any, Symbol] = {}


@cache
def variable_of(symbol: Symbol) -> Any:
    """Return the variable that stands for a symbol in types of Relax, always the same one."""
    variable = tirx.Var(symbol.name, INDEX)
    _SYMBOLS[variable] = symbol
    return variable


def relax_extent(extent: int) -> Any:
    """Return an extent as an expression for a shape of Relax."""
    return prim_of_extent(extent, {s.name: variable_of(s) for s in symbols_of(extent)})


def extent_in_relax(expression: Any) -> int:
    """Return the extent of an expression that :func:`relax_extent` or TVM made of its results."""
    if isinstance(expression, (int, tirx.IntImm)):
        return int(expression)
    variables: list[Any] = []
    tvm_ffi.structural_walk(expression, (tvm.ir.Var, variables.append))
    return extent_of_prim(expression, {v.name: _SYMBOLS[v] for v in variables if v in _SYMBOLS})


def prim_of_extent(extent: int, variables: Mapping[str, Any]) -> Any:
    """Return an extent as an int64 expression of TIR, of the variables of its symbols, by name."""
    if not isinstance(extent, Extent):
        return tirx.IntImm(INDEX, extent)
    return _sum(extent.terms, variables)


def extent_of_prim(expression: Any, symbols: Mapping[str, Symbol]) -> int:
    """Return an integer expression of TIR as an extent of symbols, by their variables' names.

    Raise UserError if the extent has no such expression.
    """

    def extent(part: Any) -> int:
        match part:
            case int() | tirx.IntImm():
                return int(part)
            case tirx.Var() if part.name in symbols:
                return extent_of(symbols[part.name])
            case tirx.Cast():
                return extent(part.value)
            case tirx.Add():
                return extent(part.a) + extent(part.b)
            case tirx.Sub():
                return extent(part.a) - extent(part.b)
            case tirx.Mul():
                return extent(part.a) * extent(part.b)
            # Extents are not negative, so that both divisions are the same.
            case tirx.FloorDiv() | tirx.Div():
                return extent(part.a) // extent(part.b)
            case tirx.FloorMod() | tirx.Mod():
                return extent(part.a) % extent(part.b)
            case tirx.Min() if (least := _least(extent(part.a), extent(part.b))) is not None:
                return least
            case tirx.Max() if (least := _least(-extent(part.a), -extent(part.b))) is not None:
                return -least
            case _:
                raise UserError(
                    f"the extent {expression} of an open shape has {type(part).__name__}, and only "
                    "sums, products and quotients of symbols are known, and extremes that are the "
                    "same operand at all shapes"
                )

    return extent(expression)


def is_same(first: int, second: int) -> bool:
    """Return whether two extents are the same at all shapes."""
    difference = first - second
    return not isinstance(difference, Extent) and difference == 0


def _least(first: int, second: int) -> int | None:
    """Return the one of two extents that is at most the other at all shapes; None if neither is."""
    for one, other in ((first, second), (second, first)):
        if not may_be_positive(one - other):
            return one
    return None


def is_multiple(extent: int, of: int) -> bool:
    """Return whether an extent is a multiple of a number at all shapes."""
    rest = extent % of
    return not isinstance(rest, Extent) and rest == 0


def _sum(terms: Terms, variables: Mapping[str, Any]) -> Any:
    total: Any = None
    for monomial, factor in terms:
        product: Any = tirx.IntImm(INDEX, factor)
        for atom in monomial:
            product = _atom(atom, variables) * product
        total = product if total is None else total + product
    return total


def _atom(atom: Symbol | Floor, variables: Mapping[str, Any]) -> Any:
    if isinstance(atom, Symbol):
        return variables[atom.name]
    return tirx.floordiv(_sum(atom.terms, variables), tirx.IntImm(INDEX, atom.divisor))
