"""Stages of streams: the launch order of units, their streams, and the events they wait for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from tvm_ios.graph.op_graph import OpGraph, bits, mask_of
from tvm_ios.schedule.stage import Stage, Strategy


def stage_of_streams(order: Iterable[int], stream_of: Mapping[int, int]) -> Stage:
    """Return a stage of streams from the topological launch order and each unit's stream."""
    launched = tuple(order)
    streams: dict[int, list[int]] = {}
    for unit in launched:
        streams.setdefault(stream_of[unit], []).append(unit)
    return Stage(Strategy.STREAMS, tuple(map(tuple, streams.values())), launched)


def synchronisations(graph: OpGraph, stage: Stage) -> dict[int, tuple[int, ...]]:
    """Return for each unit of a stage of streams the units of other streams that it waits for.

    The sets are minimal: waits implied by another wait, or by the unit before it on its stream, are
    left out.
    """
    before = {unit: earlier for group in stage.groups for earlier, unit in pairwise(group)}
    inside = mask_of(stage.units)
    #: For each unit all that has ended when it begins.
    ended: dict[int, int] = {}
    waits: dict[int, tuple[int, ...]] = {}
    for unit in stage.units:
        known = 0
        if unit in before:
            known = ended[before[unit]] | 1 << before[unit]
        needed = graph.predecessors[unit] & inside & ~known
        implied = known
        for source in bits(needed):
            implied |= ended[source]
        waits[unit] = tuple(bits(needed & ~implied))
        ended[unit] = implied | needed
    return waits
