"""Fit expressions of symbols to numbers that are known at some shapes.

The extents of real tensors are products of symbols, and of what strides and pools leave of them,
``(symbol + a) // c``, times a number and plus a number. These are tried, the simplest first:
symbols, products and sums of them, then quotients. Of the first kind that fits only one expression
may fit, or all that do must be equal in the whole range.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations_with_replacement, product
from math import gcd, prod

from tvm_ios.graph.extent import OpenExtentError, evaluate, noted_guards

#: Values of the symbols, by name.
Values = Mapping[str, int]

#: The divisors of strides and pools after one another.
_DIVISORS = (2, 3, 4, 5, 8, 16, 32)


class AmbiguousError(OpenExtentError):
    """Several expressions fit, which differ at other shapes: ``one`` and ``other`` do.

    ``sentence`` says so.
    """

    def __init__(self, sentence: str, one: int = 0, other: int = 0) -> None:
        super().__init__(sentence)
        self.one, self.other = one, other


class Fitting:
    """Expressions that numbers at some points may have.

    ``open_extents`` are the extents of the inputs' open dimensions.
    """

    def __init__(self, open_extents: Sequence[int], points: Sequence[Values]) -> None:
        self._open, self._points = open_extents, points
        self._fitted: dict[tuple[int, ...], int | None] = {}

    def fit(self, numbers: Sequence[int]) -> int | None:
        """Return the extent that is these numbers at the points; None if no expression fits.

        Raise AmbiguousError if several fit and differ in the range.
        """
        key = tuple(numbers)
        if key not in self._fitted:
            self._fitted[key] = self._fit(key)
        return self._fitted[key]

    def _fit(self, numbers: tuple[int, ...]) -> int | None:
        way = _way(numbers)
        if way is None:
            return numbers[0]
        found: list[int] = []
        for candidates in self._by_way:
            for candidate in candidates.get(way, ()):
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
        for other in found[1:]:
            with noted_guards() as guards:
                equal = found[0] == other
            if guards or not equal:
                sentence = f"{found[0]} and {other} fit: more shapes have to be tried"
                raise AmbiguousError(sentence, found[0], other)
        return found[0] if found else None

    @cached_property
    def _by_way(self) -> list[dict[tuple[int, ...], list[int]]]:
        """By complexity the expressions, without factor and constant, by their way."""
        whole = list(self._open)
        parts = [[extent, *_parts(extent)] for extent in whole]
        pairs = combinations_with_replacement(whole, 2)
        levels: list[list[int]] = [
            whole,
            [e for one, other in pairs for e in (one * other, one + other)],
            [prod(three) for three in combinations_with_replacement(whole, 3)],
            [part for of_one in parts for part in of_one],
            [
                one * other
                for ours, theirs in combinations_with_replacement(parts, 2)
                for one, other in product(ours, theirs)
            ],
        ]
        tables: list[dict[tuple[int, ...], list[int]]] = []
        for level in levels:
            by_way: dict[tuple[int, ...], list[int]] = defaultdict(list)
            for candidate in dict.fromkeys(level):
                way = _way([evaluate(candidate, point) for point in self._points])
                if way is not None:
                    by_way[way].append(candidate)
            tables.append(by_way)
        return tables


def _parts(extent: int) -> Iterator[int]:
    """Yield the quotients of an extent, with the paddings that convolutions have."""
    for divisor in _DIVISORS:
        for added in range(divisor):
            yield (extent + added) // divisor


def _way(numbers: Sequence[int]) -> tuple[int, ...] | None:
    """Return the differences to the first number over their common divisor; None if all are 0.

    The first that is not 0 is positive: numbers that are a multiple of others, plus a number, have
    the same way.
    """
    differences = [number - numbers[0] for number in numbers]
    divisor = gcd(*differences)
    if divisor == 0:
        return None
    if next(d for d in differences if d) < 0:
        divisor = -divisor
    return tuple(difference // divisor for difference in differences)
