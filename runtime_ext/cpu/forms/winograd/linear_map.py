"""Multiply vectors by a constant matrix, skipping zeros and sharing work between paired rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from runtime_ext.kernels.code import Code, constant, load
from tvm_ios.program.winograd import Matrix

#: A vector, or None for zeros.
Value = Any
#: Returns a coefficient in every lane.
Coefficient = Callable[[Fraction], Any]


class CoefficientTable:
    """The coefficients of matrices as vectors in memory, loaded where they are used.

    As constants, LLVM would keep them in registers across all loops of a kernel, also those that
    need the registers for sums. Columns of ``matrices``, except the first and last, belong to
    pairs. The first ``elements`` elements of ``memory`` are for other data; it must be written
    between uses, or compilers recognise its values as constants.
    """

    def __init__(self, code: Code, matrices: Sequence[Matrix], elements: int, lanes: int) -> None:
        columns = [column for matrix in matrices for column in _pairs(matrix)]
        coefficients = sorted({c for column in columns for c in column} - {0, 1, -1})
        self.memory = code.on_stack(elements + len(coefficients) * lanes)
        self._places = {c: elements + at * lanes for at, c in enumerate(coefficients)}
        for coefficient, place in self._places.items():
            code.store(self.memory, place, constant(float(coefficient), lanes), lanes)

    def coefficient(self, lanes: int) -> Coefficient:
        """Return a function from a coefficient to a vector of ``lanes`` lanes of it.

        The vector is loaded if the table holds the value, else it is a constant.
        """
        return lambda value: (
            load(self.memory, self._places[value], lanes)
            if value in self._places
            else constant(float(value), lanes)
        )


def paired_rows(code: Code, matrix: Matrix, values: Sequence[Value], lanes: int) -> list[Value]:
    """Multiply by a matrix whose rows, except the first and last, belong to pairs of points.

    The rows of ``a`` and ``-a`` differ only in the sign of every other coefficient: their sum and
    their difference have half as many each.
    """
    size = len(matrix)
    if size == 1:
        return list(values)
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


def paired_columns(
    code: Code, matrix: Matrix, values: Sequence[Value], lanes: int, table: CoefficientTable
) -> list[Value]:
    """Multiply by a matrix whose columns, except the first and last, belong to pairs."""
    size = len(values)
    if size == 1:
        return list(values)
    terms: list[Value] = [values[0]]
    for at in range(1, size - 1, 2):
        terms.append(_kept(code, _sum(values[at], values[at + 1]), lanes))
        terms.append(_kept(code, _difference(values[at], values[at + 1]), lanes))
    terms.append(values[-1])
    rows = zip(*_pairs(matrix), strict=True)
    return [_combined(code, row, terms, lanes, table.coefficient(lanes)) for row in rows]


def _pairs(matrix: Matrix) -> list[tuple[Fraction, ...]]:
    """Return a matrix's columns; for each pair half the sum and half the difference."""
    columns = list(zip(*matrix, strict=True))
    result = [columns[0]]
    for at in range(1, len(columns) - 1, 2):
        pair = list(zip(columns[at], columns[at + 1], strict=True))
        result.append(tuple((a + b) / 2 for a, b in pair))
        result.append(tuple((a - b) / 2 for a, b in pair))
    return [*result, columns[-1]]


def operations(matrix: Matrix, *, by_rows: bool) -> int:
    """Return the vector operations of a product by :func:`paired_rows`, or else by columns."""
    size = len(matrix) if by_rows else len(matrix[0])
    if size == 1:
        return 0
    lines = (
        [list(row) for row in matrix] if by_rows else [list(c) for c in zip(*matrix, strict=True)]
    )
    count = 0
    for at in range(1, size - 1, 2):
        pairs = list(zip(lines[at], lines[at + 1], strict=True))
        count += 2 + sum(a + b != 0 for a, b in pairs) + sum(a != b for a, b in pairs)
    return count + sum(c != 0 for at in (0, size - 1) for c in lines[at])


def _combined(
    code: Code,
    coefficients: Sequence[Fraction],
    values: Sequence[Value],
    lanes: int,
    coefficient: Coefficient | None = None,
) -> Value:
    """Return the sum of values times coefficients; terms with factor 1 come first."""
    of = coefficient or (lambda value: constant(float(value), lanes))
    terms = [(c, v) for c, v in zip(coefficients, values, strict=True) if c and v is not None]
    terms.sort(key=lambda term: (term[0] != 1, term[0] != -1))
    total = None
    for factor, value in terms:
        if factor == 1:
            total = value if total is None else total + value
        elif factor == -1 and total is not None:
            total = total - value
        else:
            product = value * of(factor)
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
