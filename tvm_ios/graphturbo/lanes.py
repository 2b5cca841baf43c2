"""Instances on the lanes of a CPU: each lane runs whole instances, depth first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.graph import OpGraph, bits
from tvm_ios.graphturbo.instances import Instances
from tvm_ios.schedule import Schedule, Stage, Strategy


@dataclass(frozen=True, slots=True)
class LanePlace:
    """Where an instance runs.

    Attributes
    ----------
    phase
        Instances of an even phase run on lanes of their own, those of an odd one on all lanes;
        phases follow each other.
    lane
        Its own; None where all lanes share it.
    """

    phase: int
    lane: int | None


def place_instances(instances: Instances, lanes: int) -> tuple[LanePlace, ...]:
    """Lanes of instances, so that lanes wait for each other as rarely as possible.

    An instance runs where those ran that it reads from. Where these ran on several lanes, a new
    phase begins, in which each lane gets a run of neighbours; a sub-graph of fewer instances than
    lanes is shared by all lanes.

    Parameters
    ----------
    instances
        In topological order.
    lanes
        How many there are.
    """
    found: list[LanePlace] = []
    for number, instance in enumerate(instances.instances):
        factor = instances.subgraphs[instance.subgraph].factor
        sources = [found[source] for source in bits(instances.predecessors[number])]
        phase = max((source.phase for source in sources), default=0)
        if factor < lanes:
            found.append(LanePlace(phase | 1, None))
            continue
        last = {source.lane for source in sources if source.phase == phase}
        if phase % 2 or len(last) > 1:
            phase, last = phase + 2 - phase % 2, set[int | None]()
        lane = last.pop() if last else instance.part * lanes // factor
        found.append(LanePlace(phase, lane))
    return tuple(found)


def lane_schedule(
    units: OpGraph,
    instance_of: Sequence[int | None],
    order: Sequence[int],
    places: Sequence[LanePlace],
    *,
    batch: int,
    device: str = "",
) -> Schedule:
    """A schedule of the units of an unrolled graph.

    Parameters
    ----------
    units
        Of the graph in which every instance has operators of its own.
    instance_of
        For each unit its instance; None for one that joins the graph's outputs.
    order
        Of the instances; a lane runs its own ones in it.
    places
        Of the instances.
    batch, device
        Written into the schedule.
    """
    at = {instance: position for position, instance in enumerate(order)}
    end = LanePlace(max((p.phase for p in places), default=0) | 1, None)

    def key(unit: int) -> tuple[int, int, int]:
        instance = instance_of[unit]
        if instance is None:
            return end.phase, len(order), unit
        return places[instance].phase, at[instance], unit

    stages: list[Stage] = []
    for phase, members in itertools.groupby(
        sorted(range(len(units)), key=key), lambda u: key(u)[0]
    ):
        if phase % 2:
            stages += [Stage(Strategy.CONCURRENT, ((unit,),)) for unit in members]
            continue
        lanes: dict[int | None, list[int]] = {}
        for unit in members:
            instance = instance_of[unit]
            assert instance is not None
            lanes.setdefault(places[instance].lane, []).append(unit)
        stages.append(Stage(Strategy.CONCURRENT, tuple(map(tuple, lanes.values()))))
    return Schedule(units.fingerprint, tuple(stages), "graphturbo", device, batch)
