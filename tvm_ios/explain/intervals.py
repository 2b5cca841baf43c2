"""Sets of instants, as lists of intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: Begin and end, in seconds.
Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the same instants as disjoint intervals, in order, without empty ones."""
    joined: list[Interval] = []
    for begin, end in sorted(intervals):
        if end <= begin:
            continue
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def length(disjoint: Iterable[Interval]) -> float:
    """Return the total seconds of disjoint intervals."""
    return sum(end - begin for begin, end in disjoint)


def gaps(disjoint: Sequence[Interval], end: float) -> list[Interval]:
    """Return the gaps that disjoint intervals, in order, leave between time 0 and ``end``."""
    starts = [0.0, *(interval[1] for interval in disjoint)]
    ends = [*(interval[0] for interval in disjoint), end]
    return union(zip(starts, ends, strict=True))


def common(one: Sequence[Interval], other: Sequence[Interval]) -> float:
    """Return the seconds that lie in both of two lists of disjoint intervals, each in order."""
    total = 0.0
    i = j = 0
    while i < len(one) and j < len(other):
        total += max(0.0, min(one[i][1], other[j][1]) - max(one[i][0], other[j][0]))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return total
