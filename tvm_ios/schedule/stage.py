"""A stage of a schedule: units between two barriers, and how they run."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tvm_ios.graph.op_graph import OpGraph, bits, mask_of
from tvm_ios.schedule.placement import Placement
from tvm_ios.schedule.placement import fault_of as fault_of_placement


class Strategy(StrEnum):
    """The way in which the units of a stage run (IOS, section 3.1)."""

    #: Groups side by side; the units of a group one after another.
    CONCURRENT = "concurrent"
    #: One stacked operator computes all units; a split recovers their outputs.
    MERGE = "merge"
    #: Tiles of several units interleaved on the lanes (Rammer).
    CO_SCHEDULE = "co_schedule"
    #: Groups are streams: a unit waits for what it reads from in other groups (Nimble, Opara).
    STREAMS = "streams"


@dataclass(frozen=True, slots=True)
class Stage:
    """Units between two barriers.

    Attributes
    ----------
    strategy
        How the units run.
    groups
        Unit numbers, each group in topological order. A merge stage has one unit per group, a
        co-scheduled one a single group of all its units in the order of Append.
    order
        All units of a stage of streams in the order of their launches; else empty.
    placement
        The lanes of the rTasks of a co-scheduled stage, None before they are placed; else None.
    latency
        Expected seconds, or None. Stages that differ in it alone are equal.
    """

    strategy: Strategy
    groups: tuple[tuple[int, ...], ...]
    order: tuple[int, ...] = ()
    placement: Placement | None = None
    latency: float | None = field(default=None, compare=False)

    @property
    def units(self) -> tuple[int, ...]:
        """All units, group by group; those of a stage of streams in the order of their launches."""
        return self.order or tuple(unit for group in self.groups for unit in group)

    @property
    def mask(self) -> int:
        """The bit set of the units."""
        return mask_of(self.units)


def sequential_stages(graph: OpGraph) -> tuple[Stage, ...]:
    """Return stages of one unit each in the graph's order, the baseline of all schedules."""
    return tuple(Stage(Strategy.CONCURRENT, ((unit,),)) for unit in range(len(graph)))


def fault_of(graph: OpGraph, position: int, stage: Stage, done: int) -> str | None:
    """Return the first rule that a stage violates, in one sentence, or None.

    ``position`` is the stage's place in the schedule; ``done`` is the bit set of units of earlier
    stages.
    """
    where = f"stage {position}"
    if not stage.groups or not all(stage.groups):
        return f"{where} has an empty group"
    streams = stage.strategy is Strategy.STREAMS
    if fault := _fault_of_order(where, stage):
        return fault
    # The units of a stage of streams count as one group, since they may read from each other.
    group_of: dict[int, int] = {}
    for number, group in enumerate((stage.order,) if streams else stage.groups):
        for unit in group:
            if not 0 <= unit < len(graph):
                return f"{where} names unit {unit}, which does not exist"
            name = graph.operators[unit].name
            if unit in group_of or done >> unit & 1:
                return f"unit {name!r} is scheduled twice"
            for p in bits(graph.predecessors[unit] & ~done):
                if group_of.get(p) != number:
                    return (
                        f"unit {name!r} in {where} runs before or beside "
                        f"{graph.operators[p].name!r}, which it reads from"
                    )
            group_of[unit] = number
    if stage.strategy is Strategy.MERGE and any(len(group) != 1 for group in stage.groups):
        return f"{where} merges a group of more than one unit"
    if stage.strategy is Strategy.CO_SCHEDULE and len(stage.groups) != 1:
        return f"{where} co-schedules more than one group"
    if (stage.strategy is Strategy.CO_SCHEDULE) != (stage.placement is not None):
        has = "no" if stage.placement is None else "a"
        return f"{where} is {stage.strategy.value} and has {has} placement of rTasks"
    if stage.placement is not None and (
        fault := fault_of_placement(graph, stage.units, stage.placement)
    ):
        return f"{where} {fault}"
    return None


def _fault_of_order(where: str, stage: Stage) -> str | None:
    """Return the fault of a stage's launch order, or None.

    Each unit of a stage of streams is launched once, those of a stream in the stream's order; other
    stages have no launch order.
    """
    if stage.strategy is not Strategy.STREAMS:
        return f"{where} has an order of launches but no streams" if stage.order else None
    place = {unit: number for number, unit in enumerate(stage.order)}
    for group in stage.groups:
        places = [place.pop(unit, -1) for unit in group]
        if -1 in places or places != sorted(places):
            return f"{where} launches the units of a stream in another order than the stream's"
    return f"{where} launches a unit that is on none of its streams" if place else None
