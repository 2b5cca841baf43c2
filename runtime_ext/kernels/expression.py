"""Element-wise expressions, which a kernel applies to a value before it stores it.

An expression is nested tuples, so that it can be hashed and printed: ``("acc",)`` is the value
that the kernel's anchor has computed, ``("load", access)`` reads a buffer, ``("const", x)`` is a
number, and ``(operation, *expressions)`` computes; ``("window", ...)`` is described at
:func:`windows`, and ``("fused", a, b, c)`` is ``a * b + c``, rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from runtime_ext.kernels.float_edges import difference, extreme
from runtime_ext.kernels.transcendental import VECTORISED, Arithmetic

#: ``(operation, *operands)``; see the module's docstring.
Expr = tuple[Any, ...]

ACC: Expr = ("acc",)
_LARGEST = 3.4028234663852886e38


@dataclass(frozen=True, slots=True)
class Access:
    """The position of a tensor's elements in a buffer of a kernel."""

    #: Index of the buffer among the kernel's.
    buffer: int
    #: Element of the origin.
    offset: int
    #: Elements to the next point along each of the four axes of the kernel's grid; 0 where the
    #: tensor is broadcast. Vectors lie along the last axis.
    strides: tuple[int, int, int, int]

    def shifted(self, axis: int, by: int) -> Access:
        """Return the access ``by`` elements further along an axis."""
        return Access(self.buffer, self.offset + by * self.strides[axis], self.strides)


_EMIT: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": difference,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "sqrt": tirx.sqrt,
    "log": tirx.log,
    "abs": tirx.abs,
    "floor": tirx.floor,
    "ceil": tirx.ceil,
    # Ties to even.
    "round": tirx.nearbyint,
    "pow": tirx.power,
    "fused": lambda a, b, c: tirx.call_llvm_pure_intrin(a.ty, "llvm.fma", a, b, c),
    "select_positive": lambda x, a, b: tirx.Select(x > 0.0, a, b),
}


def emit(
    expr: Expr,
    acc: Any,
    load: Callable[[Any], Any],
    of: Arithmetic,
    functions: Mapping[str, Callable[[Any, Arithmetic], Any]] = VECTORISED,
) -> Any:
    """Return the TIR of an expression, whose equal parts are computed once.

    ``acc`` is the TIR of the anchor's value, ``load`` returns that of an access, ``of`` are the
    operations on vectors, and ``functions`` compute exp and the like from an operand.
    """
    values: dict[Expr, Any] = {ACC: acc}
    keep = of.keep

    def value(part: Expr) -> Any:
        if part not in values:
            match part:
                case ("load", access):
                    values[part] = keep(load(access))
                case ("const", number):
                    values[part] = of.constant(number)
                case (operation, operand) if operation in functions:
                    values[part] = keep(functions[operation](value(operand), of))
                case ("max" | "min" as operation, a, b):
                    if b[0] == "const":
                        a, b = b, a
                    number = a[0] == "const"
                    values[part] = keep(extreme(operation, value(a), value(b), number=number))
                case ("mul", ("const", 0.0), x) | ("mul", x, ("const", 0.0)):
                    # TVM would simplify it to 0, also for infinities and NaN.
                    values[part] = value(("sub", x, x))
                case ("div", ("const", 0.0), x):
                    inverse = ("div", ("const", 1.0), x)
                    values[part] = value(("sub", inverse, inverse))
                case ("div", x, ("const", 0.0 as zero)):
                    # TVM refuses to divide by a constant zero.
                    values[part] = value(("mul", x, ("const", math.copysign(math.inf, zero))))
                case (operation, *operands):
                    values[part] = keep(_EMIT[operation](*map(value, operands)))
                case _:
                    raise ValueError(f"{part!r} is not an expression")
        return values[part]

    return value(expr)


def loads(expr: Expr) -> Iterator[Any]:
    """Yield the accesses that an expression reads, in order, with repetitions."""
    if expr[0] == "load":
        yield expr[1]
    elif expr[0] not in ("acc", "const"):
        for operand in _operands(expr):
            yield from loads(operand)


def size(expr: Expr) -> int:
    """Return the number of different operations, loads and constants."""
    return len(set(_parts(expr)))


def operations(expr: Expr) -> Iterator[str]:
    """Yield the operations of an expression; those of equal operands once."""
    return (part[0] for part in set(_parts(expr)) if part[0] not in ("acc", "load", "const"))


def _parts(expr: Expr) -> Iterator[Expr]:
    yield expr
    for operand in _operands(expr):
        yield from _parts(operand)


def substitute(expr: Expr, leaf: Callable[[Expr], Expr]) -> Expr:
    """Replace every ``acc``, ``load`` and ``const`` of an expression by ``leaf(it)``."""
    if expr[0] in ("acc", "load", "const"):
        return leaf(expr)
    return (expr[0], *(substitute(e, leaf) if isinstance(e, tuple) else e for e in expr[1:]))


def map_accesses(expr: Expr, change: Callable[[Access], Access]) -> Expr:
    """Return the expression with every access that it reads changed."""
    return substitute(expr, lambda x: ("load", change(x[1])) if x[0] == "load" else x)


def reads_nothing(_access: Access) -> Any:
    """Raise AssertionError: the ``load`` of :func:`emit` for a prologue, which has no loads."""
    raise AssertionError("a prologue reads nothing but its input")


def _operands(expr: Expr) -> list[Expr]:
    return [e for e in expr[1:] if isinstance(e, tuple)]


def windows(expr: Expr) -> Iterator[Expr]:
    """Yield each ``("window", expression, before, after, extent)`` in an expression.

    A window stands for the sum of the expression over the channels ``c - before`` to ``c + after``
    that exist among ``extent``.
    """
    if expr[0] == "window":
        yield expr
    elif expr[0] not in ("acc", "const", "load"):
        for operand in _operands(expr):
            yield from windows(operand)


def is_element_wise(name: str) -> bool:
    """Return whether :func:`element_wise` knows a Relax operator."""
    return name in _RELAX or name in ("relax.nn.leakyrelu", "relax.power")


def element_wise(name: str, operands: Sequence[Expr], attrs: Any) -> Expr | None:
    """Return the expression of a Relax operator's call; None if it is not element-wise."""
    if name == "relax.nn.leakyrelu":
        (x,) = operands
        return ("select_positive", x, x, ("mul", x, ("const", float(attrs.alpha))))
    if name == "relax.power":
        return _power(*operands)
    make = _RELAX.get(name)
    return make(*operands) if make is not None else None


def _power(base: Expr, exponent: Expr) -> Expr:
    """Return a power, by roots and products if possible: a tenth of the general one's time."""
    root: Expr = ("sqrt", base)
    products: dict[float, Expr] = {
        0.25: _of_infinity(base, ("sqrt", root)),
        0.5: root,
        0.75: _of_infinity(base, ("mul", root, ("sqrt", root))),
        1.0: base,
        2.0: ("mul", base, base),
        3.0: ("mul", ("mul", base, base), base),
    }
    if exponent[0] == "const" and exponent[1] in products:
        return products[exponent[1]]
    return ("pow", base, exponent)


def _of_infinity(base: Expr, power: Expr) -> Expr:
    """Return the power, but infinity if the base is minus infinity; unchanged for windows."""
    if next(windows(base), None) is not None:
        return power
    # Positive only if the base is minus infinity.
    below: Expr = ("sub", ("const", -_LARGEST), base)
    return ("select_positive", below, ("mul", base, base), power)


def _unary(name: str) -> Callable[[Expr], Expr]:
    return lambda x: (name, x)


def _binary(name: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: (name, a, b)


_ZERO: Expr = ("const", 0.0)
_ONE: Expr = ("const", 1.0)


_RELAX: dict[str, Callable[..., Expr]] = {
    "relax.add": _binary("add"),
    "relax.subtract": _binary("sub"),
    "relax.multiply": _binary("mul"),
    "relax.divide": _binary("div"),
    "relax.maximum": _binary("max"),
    "relax.minimum": _binary("min"),
    "relax.sqrt": _unary("sqrt"),
    "relax.exp": _unary("exp"),
    "relax.log": _unary("log"),
    "relax.tanh": _unary("tanh"),
    "relax.abs": _unary("abs"),
    "relax.floor": _unary("floor"),
    "relax.ceil": _unary("ceil"),
    "relax.round": _unary("round"),
    "relax.rsqrt": lambda x: ("div", _ONE, ("sqrt", x)),
    "relax.square": lambda x: ("mul", x, x),
    # Not 0 - x: zero has a sign, too.
    "relax.negative": lambda x: ("mul", x, ("const", -1.0)),
    "relax.nn.relu": lambda x: ("max", x, _ZERO),
    "relax.clip": lambda x, low, high: ("max", ("min", x, high), low),
    "relax.sigmoid": _unary("sigmoid"),
    "relax.erf": _unary("erf"),
    "relax.nn.prelu": lambda x, slope: ("select_positive", x, x, ("mul", x, slope)),
    "relax.nn.silu": lambda x: ("mul", x, ("sigmoid", x)),
    "relax.nn.gelu": lambda x: (
        "mul",
        ("mul", x, ("const", 0.5)),
        ("add", _ONE, ("erf", ("mul", x, ("const", 0.5**0.5)))),
    ),
}
