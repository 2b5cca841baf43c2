"""Arenas drawn like the hard ones of MiniMalloc's authors, whose least size is known.

A rectangle of time and bytes is cut into buffers, so that they fit exactly; then some are taken
away, where the rectangle need not be full. One section of time stays full: no arena is smaller than
the rectangle.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

MIB = 1 << 20
#: Bytes that all sizes are multiples of.
_GRAIN = 1024
#: Steps of time.
_STEPS = 1 << 16
#: The number of buffers, and the share that is taken away, of each of the ten.
KINDS = (
    *((500, 0.0), (500, 0.05), (750, 0.0), (750, 0.1), (1000, 0.0)),
    *((1000, 0.05), (1000, 0.15), (1500, 0.05), (2000, 0.0), (2000, 0.1)),
)


@dataclass(frozen=True)
class HardArena:
    """Buffers as columns: the steps in which they live, from lower to before upper, and bytes."""

    name: str
    lower: list[int]
    upper: list[int]
    size: list[int]
    capacity: int = MIB


def hard_arena(number: int) -> HardArena:
    """Return one of the ten, of which each has a seed of its own."""
    buffers, missing = KINDS[number]
    rng = random.Random(number)
    # The largest is cut next, ties by their number.
    pieces: list[tuple[int, int, tuple[int, int, int]]] = [(0, 0, (0, _STEPS, MIB // _GRAIN))]
    made = 1
    while len(pieces) < buffers:
        _, _, (lower, upper, size) = heapq.heappop(pieces)
        for piece in _cut(rng, lower, upper, size):
            made += 1
            heapq.heappush(pieces, (-(piece[1] - piece[0]) * piece[2], made, piece))
    rows = [piece for _, _, piece in pieces]
    full = rng.randrange(_STEPS)
    kept = [row for row in rows if row[0] <= full < row[1] or rng.random() >= missing]
    rng.shuffle(kept)
    lower, upper, size = (list(column) for column in zip(*kept, strict=True))
    return HardArena(f"{buffers}, {missing:.0%} less", lower, upper, [s * _GRAIN for s in size])


def _cut(rng: random.Random, lower: int, upper: int, size: int) -> list[tuple[int, int, int]]:
    """Return the two parts of a rectangle, cut in time or in bytes."""
    length = upper - lower
    # Lives are short or long, sizes of few kinds: halves, quarters and thirds.
    if size == 1 or (length > 1 and rng.random() < 0.5):
        middle = lower + max(1, min(length - 1, round(length * rng.uniform(0.15, 0.85))))
        return [(lower, middle, size), (middle, upper, size)]
    below = max(1, min(size - 1, round(size * rng.choice((1 / 4, 1 / 3, 1 / 2, 2 / 3)))))
    return [(lower, upper, below), (lower, upper, size - below)]
