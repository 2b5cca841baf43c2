"""exp, tanh, the logistic function and erf in arithmetic that LLVM vectorises.

TVM's own intrinsics become one call of the C library for every lane. The polynomials here, and
their quotients, are minimax fits, and relative errors of the results are below 5e-7 wherever these
are normal numbers; infinities, zeros and not-a-numbers come out as from the C library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from runtime_ext.kernels.float_edges import extreme

#: The coefficients of a polynomial that is exp(r) for abs(r) <= log(2) / 2; here and below the
#: constant term is first.
_EXP = (1.0, 1.0, 0.499992311, 0.16667111218, 0.04189017043, 0.00831279337)
#: Polynomials of x**2 whose quotients, times x, are tanh and erf up to the bounds. There they reach
#: a little more than one, so that clipping makes it exactly one beyond: GELU multiplies by it.
_TANH = (
    (0.99999994, 0.13372847438, 0.00348490756, 2.0397204935e-05, 1.3009408661e-08),
    (1.0, 0.46706181765, 0.02583886869, 0.00032665408799, 7.6450203323e-07),
)
_TANH_BOUND = 9.02
_ERF = (
    (1.1283791065, 0.18522033095, 0.05208961293, 0.00355240004, 0.00028185733, 2.1132352686e-06),
    (1.0, 0.49748036265, 0.11199084669, 0.01453812979, 0.00111424655, 3.8585396396e-05),
)
_ERF_BOUND = 3.93
#: log(2) in two parts; the first times a small integer is exact.
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
_LOG2_E = 1.4426950408889634
#: Beyond these exp is zero, or infinite.
_EXP_LOW, _EXP_HIGH = -104.0, 89.0
#: Beyond these the logistic function is zero, or one.
_SIGMOID_LOW, _SIGMOID_HIGH = -87.3366, 87.0
#: Adding it to a number below 2 ** 22 rounds that to an integer, as both have 23 fraction bits.
ROUNDING = 1.5 * 2**23
_FRACTION_BITS, _BIAS = 23, 127


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Operations on vectors of some number of lanes.

    ``constant`` returns a number in all lanes, ``keep`` binds a result so that it is computed
    once, and ``reciprocal`` inverts a normal number between 2**-126 and 2**126, to a unit in the
    last place.
    """

    constant: Callable[[float], Any]
    keep: Callable[[Any], Any]
    reciprocal: Callable[[Any], Any]


def dividing(constant: Callable[[float], Any], keep: Callable[[Any], Any]) -> Arithmetic:
    """Return the arithmetic whose reciprocals are divisions."""
    return Arithmetic(constant, keep, lambda value: constant(1.0) / value)


def exp(x: Any, of: Arithmetic) -> Any:
    """Compute ``2**n * exp(x - n * log(2))`` with n the nearest integer to ``x / log(2)``."""
    r, exponent = _reduced(_within(x, _EXP_LOW, _EXP_HIGH, of), of)
    # Multiply in two steps: at the ends of the range 2**n is no float.
    half = (exponent >> _integer(1, exponent)) & _integer(-1 << _FRACTION_BITS, exponent)
    return _polynomial(r, _EXP, of) * _power(half) * _power(exponent - half)


def sigmoid(x: Any, of: Arithmetic) -> Any:
    """Compute ``1 / (1 + 2**-n * exp(-r))``, with n and r those of :func:`exp`."""
    below = of.keep(extreme("min", of.constant(_SIGMOID_HIGH), x, number=True))
    r, exponent = _reduced(below, of)
    falling = [c * (-1) ** i for i, c in enumerate(_EXP)]
    power = _power(_integer(0, exponent) - exponent)
    value = of.reciprocal(of.keep(_polynomial(r, falling, of) * power + of.constant(1.0)))
    return tirx.Select(x < of.constant(_SIGMOID_LOW), of.constant(0.0), value)


def tanh(x: Any, of: Arithmetic) -> Any:
    """Compute tanh as an odd rational function."""
    return _odd(x, *_TANH, _TANH_BOUND, of)


def erf(x: Any, of: Arithmetic) -> Any:
    """Compute erf as an odd rational function."""
    return _odd(x, *_ERF, _ERF_BOUND, of)


def _odd(
    x: Any, numerator: Sequence[float], divisor: Sequence[float], bound: float, of: Arithmetic
) -> Any:
    x = _within(x, -bound, bound, of)
    square = of.keep(x * x)
    above = of.keep(x * _polynomial(square, numerator, of))
    value = of.keep(above * of.reciprocal(of.keep(_polynomial(square, divisor, of))))
    return _within(value, -1.0, 1.0, of)


def _within(x: Any, low: float, high: float, of: Arithmetic) -> Any:
    for name, bound in (("max", low), ("min", high)):
        x = of.keep(extreme(name, of.constant(bound), x, number=True))
    return x


def _polynomial(x: Any, coefficients: Sequence[float], of: Arithmetic) -> Any:
    """Evaluate a polynomial by Horner's rule; the constant term comes first."""
    value = of.constant(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = of.keep(value * x + of.constant(coefficient))
    return value


def _reduced(x: Any, of: Arithmetic) -> tuple[Any, Any]:
    """Return ``x - n * log(2)`` for the nearest integer n, and n shifted to a float's exponent."""
    shifted = of.keep(x * of.constant(_LOG2_E) + of.constant(ROUNDING))
    n = of.keep(shifted - of.constant(ROUNDING))
    r = of.keep(x - n * of.constant(_LN2_HIGH) - n * of.constant(_LN2_LOW))
    bits = tirx.reinterpret(str(shifted.ty.dtype).replace("float", "int"), shifted)
    return r, bits << _integer(_FRACTION_BITS, bits)


def _power(exponent: Any) -> Any:
    """Return 2**n (128: infinity) for n from -126, given n shifted to a float's exponent."""
    bits = exponent + _integer(_BIAS << _FRACTION_BITS, exponent)
    return tirx.reinterpret(str(bits.ty.dtype).replace("int", "float"), bits)


def _integer(value: int, like: Any) -> Any:
    lanes = int(str(like.ty.dtype).partition("x")[2] or 1)
    scalar = tirx.IntImm("int32", value)
    return scalar if lanes == 1 else tirx.Broadcast(scalar, lanes)


VECTORISED: Mapping[str, Callable[[Any, Arithmetic], Any]] = {
    "exp": exp,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "erf": erf,
}
