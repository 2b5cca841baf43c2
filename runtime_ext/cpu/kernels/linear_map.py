"""Multiply a few vectors by a constant matrix: zeros left out, what pairs share computed once."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from runtime_ext.kernels.code import Code, constant
from tvm_ios.program.winograd import Matrix

#: A vector, or None for zeros.
Value = Any


def paired_rows(code: Code, matrix: Matrix, values: Sequence[Value], lanes: int) -> list[Value]:
    """The product with a matrix whose rows, but for the first and last, belong to pairs of points.

    The rows of ``a`` and ``-a`` are the same but for the sign of every other coefficient: their
    sum and their difference have half as many each.
    """
    size = len(matrix)
    results: list[Value] = [None] * size
    for row in (0, size - 1):
        results[row] = _combined(code, matrix[row], values, lanes)
    for row in range(1, size - 1, 2):
        pairs = list(zip(matrix[row], matrix[row + 1], strict=True))
        even = _combined(code, [(a + b) / 2 for a, b in pairs], values, lanes)
        odd = _combined(code, [(a - b) / 2 for a, b in pairs], values, lanes)
        results[row] = _kept(code, _sum(even, odd), lanes)
        results[row + 1] = _kept(code, _difference(even, odd), lanes)
    return results


def paired_columns(code: Code, matrix: Matrix, values: Sequence[Value], lanes: int) -> list[Value]:
    """The product with a matrix whose columns, but for the first and last, belong to pairs."""
    size = len(values)
    terms: list[Value] = [values[0]]
    columns: list[tuple[Fraction, ...]] = [tuple(row[0] for row in matrix)]
    for at in range(1, size - 1, 2):
        first, second = (tuple(row[k] for row in matrix) for k in (at, at + 1))
        terms.append(_kept(code, _sum(values[at], values[at + 1]), lanes))
        columns.append(tuple((a + b) / 2 for a, b in zip(first, second, strict=True)))
        terms.append(_kept(code, _difference(values[at], values[at + 1]), lanes))
        columns.append(tuple((a - b) / 2 for a, b in zip(first, second, strict=True)))
    terms.append(values[-1])
    columns.append(tuple(row[-1] for row in matrix))
    rows = zip(*columns, strict=True)
    return [_combined(code, row, terms, lanes) for row in rows]


def operations(matrix: Matrix, *, by_rows: bool) -> int:
    """Vector operations of a product by :func:`paired_rows`, or else by columns."""
    size = len(matrix) if by_rows else len(matrix[0])
    lines = (
        [list(row) for row in matrix] if by_rows else [list(c) for c in zip(*matrix, strict=True)]
    )
    count = 0
    for at in range(1, size - 1, 2):
        pairs = list(zip(lines[at], lines[at + 1], strict=True))
        count += 2 + sum(a + b != 0 for a, b in pairs) + sum(a != b for a, b in pairs)
    return count + sum(c != 0 for at in (0, size - 1) for c in lines[at])


def _combined(
    code: Code, coefficients: Sequence[Fraction], values: Sequence[Value], lanes: int
) -> Value:
    """The sum of values times coefficients; it begins with what needs no multiplication."""
    terms = [(c, v) for c, v in zip(coefficients, values, strict=True) if c and v is not None]
    terms.sort(key=lambda term: (term[0] != 1, term[0] != -1))
    total = None
    for coefficient, value in terms:
        if coefficient == 1:
            total = value if total is None else total + value
        elif coefficient == -1 and total is not None:
            total = total - value
        else:
            product = value * constant(float(coefficient), lanes)
            total = product if total is None else total + product
    return _kept(code, total, lanes)


def _sum(a: Value, b: Value) -> Value:
    return a if b is None else b if a is None else a + b


def _difference(a: Value, b: Value) -> Value:
    if a is None:
        return None if b is None else b * -1.0
    return a if b is None else a - b


def _kept(code: Code, value: Value, lanes: int) -> Value:
    return None if value is None else code.keep(value, lanes)
