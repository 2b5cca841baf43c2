"""Fit expressions of symbols to numbers that are known at some shapes.

The extents of real tensors are products of symbols, and of what strides and pools leave of them,
``(symbol + a) // c``, times a number and plus a number. These are tried, the simplest first:
symbols, products and sums of them, then quotients, then quotients and products of expressions that
were fitted before, as one stride follows another. If several expressions of one kind fit, and
differ somewhere in the range, more shapes have to be tried.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, combinations_with_replacement, product
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.shapes.extent import (
    OpenExtentError,
    evaluate,
    extent_of,
    is_open,
    noted_guards,
    symbols_in,
    symbols_of,
)

#: Values of the symbols, by name.
Values = Mapping[str, int]

#: The divisors of strides and pools after one another.
_DIVISORS = (2, 3, 4, 5, 8, 16, 32)
#: The numbers to whose multiples images are padded or cropped.
_MULTIPLES = (2, 3, 4, 5, 6, 7, 8, 12, 14, 16, 32, 64)
#: The side, divisor and summand of :func:`_rest`.
_How = tuple[int, int, int]
_RESTS: list[_How] = [(side, d, n) for d in _MULTIPLES for n in range(d) for side in range(4)]
#: The divisors of windows of samples.
_HOPS = (10, 20, 40, 64, 80, 100, 128, 160, 256, 320, 512)
#: The place of an extent, what is added to it, and what the sum is divided by.
_Part = tuple[int, int, int]
#: The number of kinds of formulas of symbols, see :func:`_formulas`.
_KINDS = 5
#: The kinds that have no quotients, and the one that has one.
_WHOLE, _QUOTIENTS = range(3), 3


def values_text(values: Values) -> str:
    """Return values of symbols as a part of a sentence."""
    return ", ".join(f"{name} = {value}" for name, value in values.items())


class AmbiguousError(OpenExtentError):
    """Several expressions fit, which differ at other shapes: ``one`` and ``other`` do.

    ``sentence`` says so.
    """

    def __init__(self, sentence: str, one: int = 0, other: int = 0) -> None:
        super().__init__(sentence)
        self.one, self.other = one, other


class Formula(NamedTuple):
    """A formula of some extents: few of thousands become expressions, which are slow to make."""

    combine: Callable[[list[Any]], Any]
    parts: tuple[_Part, ...]

    def of(self, extents: Sequence[Any]) -> Any:
        """Return what it makes of the extents, or of arrays of their numbers."""
        return self.combine([(extents[n] + added) // divisor for n, added, divisor in self.parts])


#: Formulas by their direction, see :func:`_direction`.
Table = dict[tuple[int, ...], list[Formula]]


class Fitting:
    """Finds the expressions that numbers at some points have.

    ``open_extents`` are the extents of the inputs' open dimensions, ``points`` the values of their
    symbols.
    """

    def __init__(self, open_extents: Sequence[int], points: Sequence[Values]) -> None:
        self._open, self._points = open_extents, points
        #: The extents, and the symbols of which they are multiples.
        self._whole = tuple(
            dict.fromkeys((*open_extents, *map(extent_of, symbols_in(tuple(open_extents)))))
        )
        self._fitted: dict[tuple[int, ...], int | None] = {}
        self._tables: dict[int, Table] = {}

    def fit(self, numbers: Sequence[int]) -> int | None:
        """Return the extent that is these numbers at the points; None if no expression fits.

        Raise AmbiguousError if several fit and differ in the range.
        """
        key = tuple(numbers)
        if key not in self._fitted:
            self._fitted[key] = self._fit(key)
        return self._fitted[key]

    def _fit(self, numbers: tuple[int, ...]) -> int | None:
        direction = _direction(numbers)
        if direction is None:
            return numbers[0]
        found: list[int] = []
        for kind in range(_KINDS + 1):
            if kind < _KINDS:
                candidates = self._of_kind(kind, direction)
            else:
                candidates = self._of_fitted(direction)
            for candidate in candidates:
                at = [evaluate(candidate, point) for point in self._points]
                first, second = next(
                    (i, j) for i, a in enumerate(at) for j, b in enumerate(at) if a != b
                )
                factor, rest = divmod(numbers[first] - numbers[second], at[first] - at[second])
                if not rest:
                    fitted = candidate * factor
                    found.append(fitted + (numbers[0] - evaluate(fitted, self._points[0])))
            if found:
                break
        # Of expressions in an order the outermost are told apart first, and those between halved.
        for other in reversed(found[1:]):
            with noted_guards() as guards:
                equal = found[0] == other
            if guards or not equal:
                sentence = f"{found[0]} and {other} fit: more shapes have to be tried"
                raise AmbiguousError(sentence, found[0], other)
        return found[0] if found else None

    def _of_kind(self, kind: int, direction: tuple[int, ...]) -> list[int]:
        """Return the expressions of a kind in a direction, each without factor and summand."""
        extents = self._whole if kind in _WHOLE else self._open
        if kind not in self._tables:
            formulas = _formulas(len(extents), kind)
            if kind == _QUOTIENTS:
                # Of few shapes, both may be 0 and 1.
                formulas = chain(formulas, self._rests(extents))
            self._tables[kind] = self._table(extents, formulas)
        return _expressions(extents, self._tables[kind].get(direction, []))

    def _of_fitted(self, direction: tuple[int, ...]) -> list[int]:
        """Return quotients, products and rests of the expressions of one symbol that are fitted.

        These are the ones in a direction.
        """
        fitted = (e for e in self._fitted.values() if e is not None and is_open(e))
        known = [e for e in fitted if len(symbols_of(e)) == 1]
        pairs = product(range(len(known), len(known) + len(self._open)), range(len(known)))
        formulas = chain(
            (Formula(prod, (part,)) for n in range(len(known)) for part in _parts(n)),
            (Formula(prod, (_whole(one), _whole(other))) for one, other in pairs),
            self._rests(known),
        )
        extents = (*known, *self._open)
        return _expressions(extents, self._table(extents, formulas).get(direction, []))

    def _rests(self, extents: Sequence[int]) -> Iterator[Formula]:
        """Yield the rests of each extent that are not it less a number at all points."""
        for place, at in enumerate(self._numbers(extents)):
            for how in _RESTS:
                _, divisor, added = how
                if len({*((at + added) // divisor).tolist()}) > 1:
                    yield Formula(partial(_rest, how), (_whole(place),))

    def _table(self, extents: Sequence[int], formulas: Iterable[Formula]) -> Table:
        table: Table = defaultdict(list)
        numbers = self._numbers(extents)
        for formula in formulas:
            direction = _direction(formula.of(numbers).tolist())
            if direction is not None:
                table[direction].append(formula)
        return table

    def _numbers(self, extents: Sequence[int]) -> list[Array]:
        return [np.array([evaluate(e, point) for point in self._points]) for e in extents]


def _formulas(count: int, kind: int) -> Iterator[Formula]:
    """Yield those of a kind, of so many extents.

    The kinds are symbols, pairs, triples, quotients and pairs of quotients.
    """
    places = range(count)
    parts = [[_whole(place), *_parts(place)] for place in places]
    match kind:
        case 0:
            yield from (Formula(prod, (_whole(place),)) for place in places)
        case 1:
            for pair in combinations_with_replacement(map(_whole, places), 2):
                yield from (Formula(combine, pair) for combine in (prod, sum))
        case 2:
            for triple in combinations_with_replacement(map(_whole, places), 3):
                yield Formula(prod, triple)
        case 3:
            hops = (part for place in places for part in _parts(place, _HOPS))
            yield from (Formula(prod, (part,)) for part in chain(*parts, hops))
        case _:
            for ours, theirs in combinations_with_replacement(parts, 2):
                yield from (Formula(prod, pair) for pair in product(ours, theirs))


def _expressions(extents: Sequence[int], formulas: Iterable[Formula]) -> list[int]:
    """Return different expressions of the extents."""
    # Equal ones of other signs have one hash, and to compare them would ask for their shape.
    return list({str(e): e for e in (formula.of(extents) for formula in formulas)}.values())


def _whole(place: int) -> _Part:
    return place, 0, 1


def _parts(place: int, divisors: Sequence[int] = _DIVISORS) -> Iterator[_Part]:
    """Yield the quotients of an extent, with the paddings that convolutions have."""
    for divisor in divisors:
        yield from ((place, added, divisor) for added in range(divisor))


def _rest(how: _How, extents: list[Any]) -> Any:
    """Return what a pad to a multiple adds to the one extent or a crop takes off it.

    It is of all, of the begin or of the end, or what is left before the end.
    """
    side, divisor, added = how
    (extent,) = extents
    rest = extent - (extent + added) // divisor * divisor
    return (rest, rest // 2, (rest + 1) // 2, extent - (rest + 1) // 2)[side]


def _direction(numbers: Sequence[int]) -> tuple[int, ...] | None:
    """Return the differences to the first number over their common divisor; None if all are 0.

    The first difference that is not 0 is positive, so that numbers have the same direction as their
    multiples, also with a number added.
    """
    differences = [number - numbers[0] for number in numbers]
    divisor = gcd(*differences)
    if divisor == 0:
        return None
    if next(d for d in differences if d) < 0:
        divisor = -divisor
    return tuple(difference // divisor for difference in differences)
