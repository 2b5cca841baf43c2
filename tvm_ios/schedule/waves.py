"""Waves of a graph (Rammer, section 3.3), and stages whose units go wave by wave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm_ios.graph.op_graph import bits, mask_of
from tvm_ios.schedule.stage import Stage, Strategy


def waves(predecessors: Sequence[int], units: Iterable[int]) -> tuple[tuple[int, ...], ...]:
    """Return the units by depth: each is in the first wave after all those that it reads from.

    ``predecessors`` has for each unit the bit set of units that it reads from. Edges from units
    outside ``units`` do not count. Units of a wave ascend.
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
    """Return the stage of an ending with these groups; a co-scheduled one is ordered by waves.

    ``predecessors`` is as for :func:`waves`.
    """
    if strategy is not Strategy.CO_SCHEDULE:
        return Stage(strategy, groups)
    units = [unit for group in groups for unit in group]
    return Stage(strategy, (tuple(u for wave in waves(predecessors, units) for u in wave),))
