"""Ranges of tiles whose number depends on the shape: how they are cut, and how cuts compare."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import lru_cache

from tvm_ios.shapes.extent import OpenExtentError, end_values, evaluate, is_open, symbols_in

#: Cuts for more lanes are not recognised.
_MOST_LANES = 256
_SHAPES = 8


def cut(tiles: int, place: int, width: int) -> int:
    """Return where the range of lane ``place`` begins if ``width`` lanes share some tiles."""
    return tiles * place // width


def same(one: int, other: int) -> bool:
    """Return whether two extents are one number for every shape."""
    difference = one - other
    return not is_open(difference) and difference == 0


def at_most(one: int, other: int, tiles: int | None = None) -> bool:
    """Return whether an extent is at most another one for every shape.

    Both may be cuts of ``tiles``. False if this is not so, or cannot be shown.
    """
    if not (is_open(one) or is_open(other)):
        return one <= other
    return _at_most(one, other, tiles)


def fits(begin: int, end: int, tiles: int | None) -> bool:
    """Return whether a range lies in ``[0, tiles)`` for every shape; it may be empty."""
    if not (is_open(begin) or is_open(end) or is_open(tiles or 0)):
        return 0 <= begin <= end and (tiles is None or end <= tiles)
    return (
        at_most(0, begin, tiles)
        and at_most(begin, end, tiles)
        and (tiles is None or at_most(end, tiles, tiles))
    )


@lru_cache(maxsize=1 << 14)
def _at_most(one: int, other: int, tiles: int | None) -> bool:
    if same(one, other):
        return True
    if tiles is not None and is_open(tiles):
        shares = _share(one, tiles), _share(other, tiles)
        if shares[0] is not None and shares[1] is not None and _decided(0, tiles):
            # Cuts of one number of tiles are in the order of their fractions.
            return shares[0] <= shares[1] or _decided(one, other)
    return _decided(one, other)


def _decided(one: int, other: int) -> bool:
    try:
        return one <= other
    except OpenExtentError:
        return False


@lru_cache(maxsize=1 << 14)
def _share(place: int, tiles: int) -> Fraction | None:
    """Return the fraction of the tiles at which a cut lies; None if it is no cut of them."""
    if not is_open(place):
        return Fraction(0) if place == 0 else None
    symbols = symbols_in((place, tiles))
    _, most = end_values(symbols)
    here, number = evaluate(place, most), evaluate(tiles, most)
    if not 0 <= here <= number or number == 0:
        return None
    # Most candidates differ at one of a few shapes, which is quicker to see than for every shape.
    draw = random.Random(0)
    shapes = [{s.name: draw.randint(s.least, s.most) for s in symbols} for _ in range(_SHAPES)]
    at_shapes = [(evaluate(place, values), evaluate(tiles, values)) for values in shapes]
    for width in range(1, _MOST_LANES + 1):
        # Those cuts that lie there in the largest shape.
        first, last = -(-here * width // number), ((here + 1) * width - 1) // number
        for numerator in range(first, min(last, width) + 1):
            alike = all(cut(count, numerator, width) == begin for begin, count in at_shapes)
            if alike and same(cut(tiles, numerator, width), place):
                return Fraction(numerator, width)
    return None
