"""Waves of a graph (Rammer, section 3.3), and stages whose units go wave by wave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm_ios.graph.op_graph import bits, mask_of
from tvm_ios.schedule.stage import Stage, Strategy


def waves(predecessors: Sequence[int], units: Iterable[int]) -> tuple[tuple[int, ...], ...]:
    """The fringes of a breadth-first walk over some units.

    Parameters
    ----------
    predecessors
        For each unit the bit set of the units it reads from, in topological order.
    units
        Any of them; edges from others do not count.

    Returns
    -------
    tuple of tuple of int
        A unit stands in the first wave after those that it reads from, in ascending order.
    """
    ordered = sorted(units)
    inside = mask_of(ordered)
    depth: dict[int, int] = {}
    by_depth: list[list[int]] = []
    for unit in ordered:
        before = predecessors[unit] & inside
        deepest = 1 + max([depth[p] for p in bits(before)]) if before else 0
        if deepest == len(by_depth):
            by_depth.append([])
        by_depth[deepest].append(unit)
        depth[unit] = deepest
    return tuple(map(tuple, by_depth))


def stage_of(
    strategy: Strategy, groups: tuple[tuple[int, ...], ...], predecessors: Sequence[int]
) -> Stage:
    """The stage that an ending becomes: co-scheduled, its units in the order of Append.

    Parameters
    ----------
    strategy
        One that is legal for the ending.
    groups
        The groups of the ending.
    predecessors
        As for :func:`waves`.
    """
    if strategy is not Strategy.CO_SCHEDULE:
        return Stage(strategy, groups)
    units = [unit for group in groups for unit in group]
    return Stage(strategy, (tuple(u for wave in waves(predecessors, units) for u in wave),))
