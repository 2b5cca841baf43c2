"""exp, tanh, the logistic function and erf in arithmetic that LLVM vectorises.

TVM's own intrinsics become one call of the C library for every lane. The polynomials here are
minimax fits, and relative errors of the results are below 5e-7 wherever these are normal numbers;
infinities, zeros and not-a-numbers come out as from the C library.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

#: Names a result, so that it is computed once.
Keep = Callable[[Any], Any]
#: A number in as many lanes as everything else.
Constant = Callable[[float], Any]

#: exp(r) = 1 + r + r**2 * p(r) for abs(r) <= log(2) / 2.
_EXP = (0.4999999403953552, 0.1666652113, 0.041668388993, 0.0083687454462, 0.001381454058)
#: tanh(x) = x + x**3 * p(x**2) for abs(x) <= 0.625.
_TANH = (-0.3333328068256378, 0.1333144158, -0.0537397154, 0.0206390843, -0.0057049841)
_TANH_BORDER = 0.625
#: erf(x) = x * p(x**2) for abs(x) <= 1.
_ERF = (
    1.1283791065, -0.37612625957, 0.11283588409, -0.02685391902, 0.005188503768, -0.0008011586,
    7.858109165681526e-05,
)  # fmt: skip
#: erf(x) = 1 - exp(p(x)) for 1 < x; from 4 on that is 1.
_LOG_ERFC = (
    -0.0003415197134, -1.127089262, -0.63814479113, -0.10310677437, 0.02183807209, -0.00294766039,
    0.00018637940229,
)  # fmt: skip
#: log(2) in two parts, of which the first times a small integer is exact.
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
#: Beyond these exp is zero, or infinite.
_EXP_LOW, _EXP_HIGH = -104.0, 89.0


def exp(x: Any, constant: Constant, keep: Keep) -> Any:
    """``2**n * exp(x - n * log(2))`` with n the nearest integer to ``x / log(2)``."""
    # A comparison with a not-a-number is false, so that it passes.
    x = keep(tirx.Select(x < constant(_EXP_LOW), constant(_EXP_LOW), x))
    x = keep(tirx.Select(x > constant(_EXP_HIGH), constant(_EXP_HIGH), x))
    n = keep(tirx.floor(x * constant(1.4426950408889634) + constant(0.5)))
    r = keep(x - n * constant(_LN2_HIGH) - n * constant(_LN2_LOW))
    fraction = keep(_polynomial(r, _EXP, constant, keep) * (r * r) + r + constant(1.0))
    # In two steps: at the ends of the range 2**n is no float.
    half = keep(tirx.floor(n * constant(0.5)))
    return fraction * _power_of_two(half) * _power_of_two(n - half)


def sigmoid(x: Any, constant: Constant, keep: Keep) -> Any:
    """``1 / (1 + exp(-x))``."""
    one = constant(1.0)
    return one / (one + keep(exp(keep(constant(0.0) - x), constant, keep)))


def tanh(x: Any, constant: Constant, keep: Keep) -> Any:
    """An odd polynomial near zero; ``1 - 2 / (exp(2 x) + 1)`` elsewhere, with the sign of x."""
    size = keep(_absolute(x, constant))
    square = keep(x * x)
    near = keep(x + x * (square * _polynomial(square, _TANH, constant, keep)))
    exponential = keep(exp(keep(size + size), constant, keep))
    far = keep(constant(1.0) - constant(2.0) / (exponential + constant(1.0)))
    return tirx.Select(size <= constant(_TANH_BORDER), near, _signed(far, x, constant))


def erf(x: Any, constant: Constant, keep: Keep) -> Any:
    """An odd polynomial near zero; 1 less the exponential of a polynomial elsewhere."""
    size = keep(_absolute(x, constant))
    square = keep(x * x)
    near = keep(x * _polynomial(square, _ERF, constant, keep))
    size = keep(tirx.Select(size > constant(4.0), constant(4.0), size))
    beyond = keep(exp(keep(_polynomial(size, _LOG_ERFC, constant, keep)), constant, keep))
    far = keep(constant(1.0) - beyond)
    return tirx.Select(size <= constant(1.0), near, _signed(far, x, constant))


def _polynomial(x: Any, coefficients: Sequence[float], constant: Constant, keep: Keep) -> Any:
    """Horner's rule; the constant term comes first."""
    value = constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = keep(value * x + constant(coefficient))
    return value


def _power_of_two(n: Any) -> Any:
    """2**n of a whole float between -126 and 127, by its exponent's bits."""
    dtype = str(n.ty.dtype)
    integer = dtype.replace("float", "int")
    lanes = int(dtype.partition("x")[2] or 1)

    def number(value: int) -> Any:
        scalar = tirx.IntImm("int32", value)
        return scalar if lanes == 1 else tirx.Broadcast(scalar, lanes)

    return tirx.reinterpret(dtype, (tirx.Cast(integer, n) + number(127)) << number(23))


def _absolute(x: Any, constant: Constant) -> Any:
    return tirx.Select(x < constant(0.0), constant(0.0) - x, x)


def _signed(size: Any, like: Any, constant: Constant) -> Any:
    return tirx.Select(like < constant(0.0), constant(0.0) - size, size)


VECTORISED: dict[str, Callable[[Any, Constant, Keep], Any]] = {
    "exp": exp,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "erf": erf,
}
