"""Extents of open dimensions: expressions of symbols that are used as numbers.

Code that computes with the extents of tensors runs on :class:`Extent` as on ``int``: arithmetic
gives expressions in a normal form, so that expressions of equal terms compare as equal. A
comparison that has one answer in the whole range has this answer. A comparison whose answer depends
on the shape is answered as at the symbols' hints and noted as a :class:`Guard`: the result of the
code is right at the shapes at which all its guards hold.

An extent is no subclass of ``int``, because Python would take the number inside a subclass without
asking (``range(extent)``, ``[0] * extent``) and lose the expression; here these raise. Annotations
say ``int`` for both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from math import lcm, prod
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from tvm_ios.errors import UserError
from tvm_ios.files.array_files import Array

T = TypeVar("T")
#: Comparisons are decided by all shapes in the range if there are at most this many.
_GRID = 1 << 16
#: Numbers beyond this are not computed in int64.
_LARGE = 1 << 62


class OpenExtentError(UserError):
    """An open extent is used where a number is needed, or in a way that has no expression."""


@dataclass(frozen=True, slots=True, order=True)
class Symbol:
    """A whole number that each shape has: an open extent, or how many steps make one."""

    #: The name of the dimension.
    name: str
    #: The range, both included.
    least: int
    most: int
    #: The number for which undecided comparisons are answered.
    hint: int

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Floor:
    """The quotient of an expression by a positive number, rounded down."""

    terms: Terms
    divisor: int

    def __str__(self) -> str:
        text = _text(self.terms)
        return f"{text if text.isidentifier() else f'({text})'}//{self.divisor}"


#: Symbols and quotients that are multiplied, in the order of their texts.
Monomial = tuple["Symbol | Floor", ...]
#: The sum of monomials times numbers other than 0, in the order of the monomials' texts.
Terms = tuple[tuple[Monomial, int], ...]


@dataclass(frozen=True, slots=True)
class Guard:
    """A comparison whose answer depends on the shape: ``left relation right`` is ``answer``."""

    left: int
    relation: str
    right: int
    answer: bool

    def holds(self, values: Mapping[str, int]) -> bool:
        """Return whether the answer is right for these values of the symbols."""
        difference = evaluate(self.left, values) - evaluate(self.right, values)
        signs = (difference < 0, difference == 0, difference > 0)
        return _answer(self.relation, signs) is self.answer

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right} is {self.answer}"


_GUARDS: ContextVar[dict[Guard, None] | None] = ContextVar("guards", default=None)


@contextmanager
def noted_guards() -> Generator[dict[Guard, None]]:
    """Note the guards of comparisons in the block; elsewhere undecided comparisons raise."""
    guards: dict[Guard, None] = {}
    token = _GUARDS.set(guards)
    try:
        yield guards
    finally:
        _GUARDS.reset(token)


_UNEQUAL: ContextVar[bool] = ContextVar("unequal", default=False)


@contextmanager
def unequal_if_undecided() -> Generator[None]:
    """Compare extents in the block as equal only if they are equal at every shape.

    This is for code that treats equal extents in a special way (an extent of 1, a whole tensor), if
    its general way is right for equal extents, too.
    """
    token = _UNEQUAL.set(True)
    try:
        yield
    finally:
        _UNEQUAL.reset(token)


class Extent:
    """An expression of symbols, with integer arithmetic and comparisons; never a constant."""

    __slots__ = ("terms",)

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    def __add__(self, other: Any) -> int:
        return NotImplemented if not _is_number(other) else _sum(self.terms, _terms(other))

    __radd__ = __add__

    def __neg__(self) -> int:
        return _made({monomial: -factor for monomial, factor in self.terms})

    def __sub__(self, other: Any) -> int:
        return NotImplemented if not _is_number(other) else self + -other

    def __rsub__(self, other: Any) -> int:
        return NotImplemented if not _is_number(other) else -self + other

    def __mul__(self, other: Any) -> int:
        if not _is_number(other):
            return NotImplemented
        sums: dict[Monomial, int] = {}
        for ours, factor in self.terms:
            for theirs, by in _terms(other):
                monomial = tuple(sorted((*ours, *theirs), key=str))
                sums[monomial] = sums.get(monomial, 0) + factor * by
        return _made(sums)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> int:
        if not _is_number(other):
            return NotImplemented
        if isinstance(other, Extent):
            return self._quotient(other)
        if other <= 0:
            raise OpenExtentError(f"{self} is divided by {other}: only positive numbers are known")
        return _floor(self.terms, other)

    def __mod__(self, other: Any) -> int:
        return NotImplemented if not _is_number(other) else self - self // other * other

    def __divmod__(self, other: int) -> tuple[int, int]:
        return self // other, self % other

    def __rfloordiv__(self, other: object) -> NoReturn:
        raise OpenExtentError(f"{other} // ({self}) has no expression")

    __rmod__ = __rdivmod__ = __rfloordiv__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | Extent) and _compared(self, "==", cast(int, other))

    def __lt__(self, other: int) -> bool:
        return _compared(self, "<", other)

    def __le__(self, other: int) -> bool:
        return _compared(self, "<=", other)

    def __gt__(self, other: int) -> bool:
        return not _compared(self, "<=", other)

    def __ge__(self, other: int) -> bool:
        return not _compared(self, "<", other)

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        return hash(self.terms)

    def __index__(self) -> int:
        raise OpenExtentError(f"a number is needed, and {self} depends on the shape")

    __int__ = __float__ = __index__

    def __repr__(self) -> str:
        return _text(self.terms)

    def _quotient(self, other: Extent) -> int:
        """Return the quotient by another expression, which has to divide this one."""
        if self.terms == other.terms:
            return 1
        if len(other.terms) == 1:
            ((divisor, by),) = other.terms
            quotient: dict[Monomial, int] = {}
            for monomial, factor in self.terms:
                rest = list(monomial)
                for atom in divisor:
                    if atom not in rest:
                        break
                    rest.remove(atom)
                else:
                    if factor % by == 0:
                        quotient[tuple(rest)] = factor // by
            if len(quotient) == len(self.terms):
                return _made(quotient)
        raise OpenExtentError(f"({self}) // ({other}) has no expression")


def extent_of(symbol: Symbol, step: int = 1) -> int:
    """Return the extent that is ``step`` times a symbol."""
    return _made({(symbol,): step})


def is_open(extent: int) -> bool:
    """Return whether an extent depends on the shape."""
    return isinstance(extent, Extent)


def evaluate(extent: int, values: Mapping[str, int]) -> int:
    """Return an extent for these values of the symbols, by name."""
    if not isinstance(extent, Extent):
        return extent
    return int(_value(extent.terms, values))


def evaluate_arrays(extent: int, values: Mapping[str, Array]) -> int | Array:
    """Return an extent for arrays of values of the symbols, by name."""
    return _value(extent.terms, values) if isinstance(extent, Extent) else extent


def hint_of(extent: int) -> int:
    """Return an extent at the hints of its symbols."""
    return evaluate(extent, {symbol.name: symbol.hint for symbol in symbols_of(extent)})


def ceil_div(extent: int, divisor: int) -> int:
    """Return the quotient by a positive number, rounded up.

    The bounds of an open extent are tighter in this form than as ``-(-extent // divisor)``.
    """
    return (extent + divisor - 1) // divisor


def bounds(extent: int) -> tuple[int, int]:
    """Return the least and the most of an extent; if it has several terms, perhaps wider bounds."""
    return _bounds(extent.terms) if isinstance(extent, Extent) else (extent, extent)


def numbers_in_range(extent: int, most: int) -> tuple[int, ...] | None:
    """Return the numbers that an extent may be, in order; None if there are more than ``most``."""
    if not isinstance(extent, Extent):
        return (extent,)
    numbers = _numbers(extent.terms)
    if numbers is None:
        least, last = _bounds(extent.terms)
        return tuple(range(least, last + 1)) if last - least < most else None
    found = np.unique(numbers)
    return tuple(map(int, found)) if len(found) <= most else None


def may_be_positive(extent: int) -> bool:
    """Return whether an extent is positive at any shape, or may be for all that is known."""
    return _signs(_terms(extent))[2]


def symbols_of(extent: int) -> tuple[Symbol, ...]:
    """Return the symbols of an extent, in order."""
    if not isinstance(extent, Extent):
        return ()
    return _symbols(extent.terms)


def extents_in(data: Any) -> Iterator[int]:
    """Yield the open extents in plain data: tuples and dataclasses of numbers and texts."""
    if isinstance(data, Extent):
        yield cast(int, data)
    elif isinstance(data, tuple):
        for item in cast("tuple[Any, ...]", data):
            yield from extents_in(item)
    elif is_dataclass(data):
        for field in fields(data):
            yield from extents_in(getattr(data, field.name))


def symbols_in(data: Any) -> tuple[Symbol, ...]:
    """Return the symbols of all open extents in plain data, as of :func:`extents_in`, in order."""
    return tuple(sorted({symbol for extent in extents_in(data) for symbol in symbols_of(extent)}))


def mapped(data: T, change: Callable[[int], Any]) -> T:
    """Return plain data, as of :func:`extents_in`, with each open extent changed."""
    new: Any = data
    if isinstance(data, Extent):
        new = change(cast(int, data))
    elif isinstance(data, tuple):
        given = cast("tuple[Any, ...]", data)
        items = tuple(mapped(item, change) for item in given)
        new = given if all(a is b for a, b in zip(items, given, strict=True)) else items
    elif is_dataclass(data) and not isinstance(data, type):
        values = {f.name: getattr(data, f.name) for f in fields(data) if f.init}
        changed = {name: mapped(value, change) for name, value in values.items()}
        if any(changed[name] is not value for name, value in values.items()):
            new = replace(data, **changed)
    return cast(T, new)


def at_values(data: T, values: Mapping[str, int]) -> T:
    """Return plain data, as of :func:`extents_in`, for these values of the symbols, by name."""
    return mapped(data, lambda extent: evaluate(extent, values))


def end_values(symbols: Collection[Symbol]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the smallest and the largest value of each symbol, by name."""
    return {s.name: s.least for s in symbols}, {s.name: s.most for s in symbols}


def at_hint(data: T) -> T:
    """Return plain data, as of :func:`extents_in`, at the hints of its symbols."""
    return mapped(data, hint_of)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Extent)


def _terms(value: Any) -> Terms:
    if isinstance(value, Extent):
        return value.terms
    return (((), int(value)),) if value else ()


def _made(sums: Mapping[Monomial, int]) -> int:
    """Return a sum in normal form: a number if it has no symbols."""
    terms = tuple(
        sorted(((m, k) for m, k in sums.items() if k), key=lambda term: _monomial_text(term[0]))
    )
    if all(not monomial for monomial, _ in terms):
        return sum(factor for _, factor in terms)
    return cast(int, Extent(terms))


def _sum(*summands: Terms) -> int:
    sums: dict[Monomial, int] = {}
    for terms in summands:
        for monomial, factor in terms:
            sums[monomial] = sums.get(monomial, 0) + factor
    return _made(sums)


def _floor(terms: Terms, divisor: int) -> int:
    """Return the quotient in normal form: all multiples of the divisor stand outside of it."""
    outside = {monomial: factor // divisor for monomial, factor in terms}
    inside = _made({monomial: factor % divisor for monomial, factor in terms})
    if isinstance(inside, Extent):
        least, most = _bounds(inside.terms)
        if least // divisor == most // divisor:
            inside = least // divisor
        else:
            open_terms = dict(inside.terms)
            number = open_terms.pop((), 0)
            (first, factor), *others = open_terms.items()
            if factor == 1 and not others and len(first) == 1 and isinstance(first[0], Floor):
                # A quotient of a quotient, plus a number, is one by both divisors.
                whole = first[0]
                numerator = _sum(whole.terms, (((), number * whole.divisor),))
                inside = numerator // (whole.divisor * divisor)
            else:
                inside = _made({(Floor(inside.terms, divisor),): 1})
    else:
        inside //= divisor
    return _made(outside) + inside


def _compared(left: Extent, relation: str, right: int) -> bool:
    difference = left - right
    if not isinstance(difference, Extent):
        signs = (difference < 0, difference == 0, difference > 0)
    else:
        signs = _signs(difference.terms)
    answer = _answer(relation, signs)
    if answer is not None:
        return answer
    if relation == "==" and _UNEQUAL.get():
        return False
    guards = _GUARDS.get()
    if guards is None:
        raise OpenExtentError(f"whether {left} {relation} {right} depends on the shape")
    at_hint = hint_of(difference)
    answer = _answer(relation, (at_hint < 0, at_hint == 0, at_hint > 0))
    assert answer is not None, "a number has one sign"
    guards[Guard(cast(int, left), relation, right, answer)] = None
    return answer


def _answer(relation: str, signs: tuple[bool, bool, bool]) -> bool | None:
    """Return the answer by the signs that a difference may have; None if it depends on them."""
    negative, zero, positive = signs
    held, broken = {
        "<": (negative, zero or positive),
        "<=": (negative or zero, positive),
        "==": (zero, negative or positive),
    }[relation]
    return None if held and broken else held


@lru_cache(maxsize=1 << 14)
def _signs(terms: Terms) -> tuple[bool, bool, bool]:
    """Return whether an expression may be negative, zero and positive in the range.

    Of few shapes all are tried; otherwise bounds decide, which may allow a sign that is not there.
    """
    least, most = _bounds(terms)
    if least > 0 or most < 0:
        return least < 0, least <= 0 <= most, most > 0
    numbers = _numbers(terms)
    if numbers is None:
        return least < 0, least <= 0 <= most, most > 0
    return bool((numbers < 0).any()), bool((numbers == 0).any()), bool((numbers > 0).any())


def _numbers(terms: Terms) -> Array | None:
    """Return all numbers that an expression is in the range; None if the shapes are too many."""
    least, most = _bounds(terms)
    symbols = _symbols(terms)
    counts = [_values_needed(terms, symbol) for symbol in symbols]
    if prod(counts) > _GRID or max(-least, most) > _LARGE:
        return None
    ranges = (s.least + np.arange(count) for s, count in zip(symbols, counts, strict=True))
    axes = np.meshgrid(*ranges, indexing="ij")
    return np.asarray(_value(terms, {s.name: a for s, a in zip(symbols, axes, strict=True)}))


def _values_needed(terms: Terms, symbol: Symbol) -> int:
    """Return how many values of a symbol, from the least, give all numbers of an expression.

    What a window of samples leaves over, for instance, is the same one stride further.
    """
    count, period = symbol.most - symbol.least + 1, _period(terms, symbol)
    if period < count:
        places: dict[str, Any] = {s.name: extent_of(s) for s in _symbols(terms)}
        places[symbol.name] += period
        if _terms(_value(terms, places)) == terms:
            return period
    return count


def _period(terms: Terms, symbol: Symbol) -> int:
    """Return a step of a symbol by which each quotient grows by a whole number, if linear."""
    quotients = [atom for monomial, _ in terms for atom in monomial if isinstance(atom, Floor)]
    periods = [q.divisor * _period(q.terms, symbol) for q in quotients]
    return lcm(*periods) if symbol in _symbols(terms) else 1


def _bounds(terms: Terms) -> tuple[int, int]:
    """Return the least and the most of an expression; of several terms, perhaps wider bounds."""
    least = most = 0
    for monomial, factor in terms:
        low = high = factor
        for atom in monomial:
            if isinstance(atom, Symbol):
                ends = (atom.least, atom.most)
            else:
                ends = tuple(end // atom.divisor for end in _bounds(atom.terms))
            products = [a * b for a in (low, high) for b in ends]
            low, high = min(products), max(products)
        least, most = least + low, most + high
    return least, most


def _value(terms: Terms, values: Mapping[str, int | Array]) -> Any:
    total: Any = 0
    for monomial, factor in terms:
        product: Any = factor
        for atom in monomial:
            if isinstance(atom, Symbol):
                product = product * values[atom.name]
            else:
                product = product * (_value(atom.terms, values) // atom.divisor)
        total = total + product
    return total


@lru_cache(maxsize=1 << 14)
def _symbols(terms: Terms) -> tuple[Symbol, ...]:
    found: set[Symbol] = set()
    for monomial, _ in terms:
        for atom in monomial:
            found |= {atom} if isinstance(atom, Symbol) else set(_symbols(atom.terms))
    return tuple(sorted(found))


def _monomial_text(monomial: Monomial) -> str:
    return "*".join(map(str, monomial))


def _text(terms: Terms) -> str:
    texts: list[str] = []
    for monomial, factor in terms:
        factors = [] if factor == 1 and monomial else [str(factor)]
        atoms = list(map(str, monomial))
        if len(factors) + len(atoms) > 1:
            # A quotient among factors stands in brackets.
            named = zip(monomial, atoms, strict=True)
            atoms = [f"({text})" if isinstance(atom, Floor) else text for atom, text in named]
        texts.append("*".join([*factors, *atoms]))
    return "+".join(texts).replace("+-", "-")
