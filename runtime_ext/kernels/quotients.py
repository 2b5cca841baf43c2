"""Rounded and clipped quotients by a number, computed exactly without division.

Quantisation divides by a scale, rounds and clips, and a division of a vector takes as long as ten
other operations. Here the value is multiplied by the reciprocal as the nearest float32, and its
product with the reciprocal's rounding error is added. Such a quotient may differ in its last bit,
which changes the rounded integer only at the boundary between two integers. Clipped integers are so
few that each boundary is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache

import numpy as np

from runtime_ext.kernels.expression import Expr

#: Bounds of scales: between them neither the reciprocal nor its rounding error is subnormal, by
#: far.
_SCALES = 2.0**-60, 2.0**60
#: The largest integer to which quotients may be clipped: all up to it are checked.
_LARGEST = 1 << 10
#: Operations on integers whose results are computed for each integer, to verify a simplification.
_OPERATIONS: Mapping[str, Callable[[np.ndarray, np.float32], np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}


@lru_cache(maxsize=4096)
def with_reciprocals(expr: Expr) -> Expr:
    """Replace quotients that are rounded and clipped by products.

    Clipping then comes before rounding, which is the same between integers. Called for each vector
    that a kernel writes.
    """
    if expr[0] in ("acc", "load", "const"):
        return expr
    clipped = _clipped(expr)
    if clipped is None:
        return (expr[0], *(with_reciprocals(e) if isinstance(e, tuple) else e for e in expr[1:]))
    quotient, low, high = _of_integers(*clipped) or clipped
    factors = None
    if quotient[0] == "div" and quotient[2][0] == "const":
        factors = reciprocal(float(np.float32(quotient[2][1])), max(-low, high))
    dividend = with_reciprocals(quotient if factors is None else quotient[1])
    within = dividend if factors is None else _quotient(dividend, *factors)
    is_positive = factors is not None and _is_positive(dividend)
    if low > 0 or not is_positive:
        within = ("max", within, ("const", float(low)))
    return ("round", ("min", within, ("const", float(high))))


def _quotient(dividend: Expr, near: float, rest: float) -> Expr:
    product: Expr = ("mul", dividend, ("const", near))
    if not rest:
        return product
    return ("fused", dividend, ("const", near), ("mul", dividend, ("const", rest)))


def _clipped(expr: Expr) -> tuple[Expr, int, int] | None:
    """Return the operand that is rounded, then clipped, and the two bounds; else None."""
    bounds: dict[str, float] = {}
    while expr[0] in ("max", "min") and expr[0] not in bounds and expr[2][0] == "const":
        bounds[expr[0]] = expr[2][1]
        expr = expr[1]
    if expr[0] != "round" or len(bounds) < 2:
        return None
    low, high = bounds["max"], bounds["min"]
    if not (-_LARGEST <= low < high <= _LARGEST and low == int(low) and high == int(high)):
        return None
    return expr[1], int(low), int(high)


def _of_integers(quotient: Expr, low: int, high: int) -> tuple[Expr, int, int] | None:
    """Simplify a requantisation of clipped integers by constants; return its operand and bounds.

    The result is one more clip, or one multiplication; all integers are tried to verify it. None
    if neither is equal, or other values are part of it.
    """
    chain = _chain(quotient)
    if chain is None:
        return None
    (inner, least, most), results = chain
    integers = np.arange(least, most + 1, dtype=np.float32)
    expected = np.clip(np.rint(results), low, high)
    first, last = expected[0], expected[-1]
    if least <= first and last <= most and (np.clip(integers, first, last) == expected).all():
        return inner, int(first), int(last)
    factor = results[-1] / np.float32(most) if most else np.float32(0)
    if (np.clip(np.rint(integers * factor), first, last) == expected).all():
        rounded = (
            "min",
            ("max", ("round", inner), ("const", float(least))),
            ("const", float(most)),
        )
        return ("mul", rounded, ("const", float(factor))), int(first), int(last)
    return None


def _chain(expr: Expr) -> tuple[tuple[Expr, int, int], np.ndarray] | None:
    """Return the clipped integers below operations with constants, and the results for all."""
    clipped = _clipped(expr)
    if clipped is not None:
        return clipped, np.arange(clipped[1], clipped[2] + 1, dtype=np.float32)
    if expr[0] not in _OPERATIONS or expr[2][0] != "const":
        return None
    chain = _chain(expr[1])
    if chain is None:
        return None
    with np.errstate(all="ignore"):
        return chain[0], _OPERATIONS[expr[0]](chain[1], np.float32(expr[2][1]))


def _is_positive(expr: Expr) -> bool:
    """Return whether a value is known not to be below zero."""
    return expr[0] == "max" and any(e[0] == "const" and e[1] >= 0 for e in expr[1:])


@lru_cache(maxsize=4096)
def reciprocal(scale: float, largest: int) -> tuple[float, float] | None:
    """Return float32 factors ``near`` and ``rest`` that replace a division by ``scale``, or None.

    Neither is negative. The nearest integer of ``fma(x, near, x * rest)`` is that of ``x / scale``
    for every float32 ``x`` with a quotient up to ``largest``, the largest integer to which
    quotients are clipped, and beyond it for all others. ``rest`` is zero where ``near`` alone
    suffices.
    """
    if not _SCALES[0] <= scale <= _SCALES[1]:
        return None
    exact = 1 / Fraction(scale)
    near = _nearest(exact)
    if Fraction(float(near)) > exact:
        # The rest must not be negative: with an infinite x, both products must have its sign.
        near = np.nextafter(near, np.float32(0))
    rest = _nearest(exact - Fraction(float(near)))

    def rounded(x: np.float32) -> float:
        total = Fraction(float(x)) * Fraction(float(near)) + Fraction(float(x * rest))
        return float(np.rint(_nearest(total)))

    # Both functions increase with x and are odd: they are equal if each integer begins at the same
    # x.
    divisor = np.float32(scale)
    for integer in range(1, largest + 1):
        first = np.float32((integer - 0.5) * scale)
        while np.rint(first / divisor) >= integer:
            first = np.nextafter(first, np.float32(0))
        while np.rint(first / divisor) < integer:
            first = np.nextafter(first, np.float32(np.inf))
        if rounded(first) < integer or rounded(np.nextafter(first, np.float32(0))) >= integer:
            return None
    return float(near), float(rest)


def _nearest(value: Fraction) -> np.float32:
    """Return the nearest float32 of a number that is not negative, ties to even."""
    double = np.float64(float(value))
    error = value - Fraction(float(double))
    if error and not double.view(np.uint64) & 1:
        # Make the last bit odd, so that it is not taken for a tie between two float32.
        double = np.nextafter(double, np.inf if error > 0 else -np.inf)
    return np.float32(double)
