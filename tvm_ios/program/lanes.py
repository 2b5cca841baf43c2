"""The lanes of each group of a concurrent stage (plain arithmetic, no TVM)."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def allocate_lanes(
    latencies: Sequence[float | Sequence[float]], lanes: int
) -> tuple[tuple[int, ...], ...]:
    """Give every group of a stage its lanes so that the last one ends early.

    Up to as many groups as lanes get disjoint teams that cover all lanes: every lane in turn goes
    to the group that would end last. More groups than lanes get one lane each, the longest group
    first on the lane that is free first; groups that share a lane run in their order in the stage.

    ``latencies`` has for each group its seconds on 1, 2, ... lanes (the last entry stands for more
    lanes), or one number: seconds on one lane, taken to divide evenly. Return the lanes of each
    group, ascending. Raise ValueError if there is no lane, or a group has no latency.

    Examples
    --------
    >>> allocate_lanes([3.0, 1.0], lanes=4)
    ((0, 1, 2), (3,))
    >>> allocate_lanes([2.0, 3.0, 2.0], lanes=2)
    ((1,), (0,), (1,))
    """
    if lanes < 1:
        raise ValueError(f"a stage cannot run on {lanes} lanes: give one or more")
    if any(not isinstance(t, int | float) and not t for t in latencies):
        raise ValueError("a group has no latency: give its seconds on one lane at least")
    if len(latencies) > lanes:
        return _packed([group_seconds(t, 1) for t in latencies], lanes)
    first = 0
    teams: list[tuple[int, ...]] = []
    for size in team_sizes(latencies, lanes):
        teams.append(tuple(range(first, first + size)))
        first += size
    return tuple(teams)


def team_sizes(latencies: Sequence[float | Sequence[float]], lanes: int) -> list[int]:
    """Return the number of lanes of each of at most as many groups as lanes; together all lanes.

    The last group's end is minimal if more lanes never make a group slower.
    """
    sizes = [1] * len(latencies)
    if not sizes:
        return sizes
    queue = [(-group_seconds(t, 1), group) for group, t in enumerate(latencies)]
    heapq.heapify(queue)
    for _ in range(lanes - len(sizes)):
        _, group = queue[0]
        sizes[group] += 1
        heapq.heapreplace(queue, (-group_seconds(latencies[group], sizes[group]), group))
    return sizes


def group_seconds(latency: float | Sequence[float], lanes: int) -> float:
    """Return the seconds of a group on a team of ``lanes`` lanes."""
    if isinstance(latency, int | float):
        return latency / lanes
    return latency[min(lanes, len(latency)) - 1]


def _packed(seconds: list[float], lanes: int) -> tuple[tuple[int, ...], ...]:
    free = [(0.0, lane) for lane in range(lanes)]
    lane_of = [0] * len(seconds)
    for group in sorted(range(len(seconds)), key=lambda g: -seconds[g]):
        at, lane = heapq.heappop(free)
        lane_of[group] = lane
        heapq.heappush(free, (at + seconds[group], lane))
    return tuple((lane,) for lane in lane_of)
