"""Fit expressions of symbols to numbers that are known at some shapes.

The extents of real tensors are products of symbols, and of what strides and pools leave of them,
``(symbol + a) // c``, times a number and plus a number. These are tried, the simplest first:
symbols, products and sums of them, then quotients, then quotients and products of expressions that
were fitted before, as one stride follows another. If several expressions of one kind fit, and
differ somewhere in the range, more shapes have to be tried.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations_with_replacement, product
from math import gcd, prod
from typing import Any

import numpy as np

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
#: Expressions by their direction, see :func:`_direction`.
Table = dict[tuple[int, ...], list[int]]
#: The number of kinds of expressions of symbols, see :func:`_candidates`.
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
                candidates = self._of_kind(kind).get(direction, [])
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

    def _of_kind(self, kind: int) -> Table:
        """Return the expressions of a kind by direction, each without factor and summand."""
        if kind not in self._tables:
            extents = self._whole if kind in _WHOLE else self._open
            candidates = _candidates(extents, kind)
            if kind == _QUOTIENTS:
                # Of few shapes, both may be 0 and 1.
                rests = (_rest(extent, *how) for extent in extents for how in self._rests(extent))
                candidates = chain(candidates, rests)
            self._tables[kind] = self._table(candidates)
        return self._tables[kind]

    def _rests(self, extent: int) -> Iterator[_How]:
        """Yield the rests of an extent that are not it less a number at all points."""
        at = np.array([evaluate(extent, point) for point in self._points])
        for how in _RESTS:
            _, divisor, added = how
            if len({*((at + added) // divisor).tolist()}) > 1:
                yield how

    def _of_fitted(self, direction: tuple[int, ...]) -> list[int]:
        """Return quotients, products and rests of the expressions of one symbol that are fitted.

        These are the ones in a direction.
        """
        fitted = (e for e in self._fitted.values() if e is not None and is_open(e))
        known = [e for e in fitted if len(symbols_of(e)) == 1]
        parts = chain.from_iterable(map(_parts, known))
        products = (one * other for one, other in product(self._open, known))
        found = self._table(chain(parts, products)).get(direction, [])
        for extent in known:
            at = np.array([evaluate(extent, point) for point in self._points])
            for how in self._rests(extent):
                if _direction(_rest(at, *how).tolist()) == direction:
                    found.append(_rest(extent, *how))
        return list({str(candidate): candidate for candidate in found}.values())

    def _table(self, candidates: Iterable[int]) -> Table:
        table: Table = defaultdict(list)
        # Equal ones of other signs have one hash, and to compare them would ask for their shape.
        for candidate in {str(candidate): candidate for candidate in candidates}.values():
            direction = _direction([evaluate(candidate, point) for point in self._points])
            if direction is not None:
                table[direction].append(candidate)
        return table


def _candidates(extents: Sequence[int], kind: int) -> Iterator[int]:
    """Yield the expressions of a kind: symbols, pairs, triples, quotients, pairs of quotients."""
    parts = [[extent, *_parts(extent)] for extent in extents]
    match kind:
        case 0:
            yield from extents
        case 1:
            for one, other in combinations_with_replacement(extents, 2):
                yield from (one * other, one + other)
        case 2:
            yield from map(prod, combinations_with_replacement(extents, 3))
        case 3:
            yield from chain.from_iterable(parts)
            for extent in extents:
                yield from _parts(extent, _HOPS)
        case _:
            for ours, theirs in combinations_with_replacement(parts, 2):
                yield from (one * other for one, other in product(ours, theirs))


def _parts(extent: int, divisors: Sequence[int] = _DIVISORS) -> Iterator[int]:
    """Yield the quotients of an extent, with the paddings that convolutions have."""
    for divisor in divisors:
        for added in range(divisor):
            yield (extent + added) // divisor


def _rest(extent: Any, side: int, divisor: int, added: int) -> Any:
    """Return what a pad to a multiple adds to an extent or a crop takes off it.

    It is of all, of the begin or of the end, or what is left before the end. The extent may be an
    array of numbers.
    """
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
