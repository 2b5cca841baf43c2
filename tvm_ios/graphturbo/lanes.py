"""Placement of instances on the lanes of a CPU: each lane runs whole instances, depth first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.graph.op_graph import bits
from tvm_ios.graphturbo.instances import Instances


@dataclass(frozen=True, slots=True)
class LanePlace:
    """The phase in which an instance runs, and its lane, or None if all lanes share it.

    Instances of an even phase run on lanes of their own, those of an odd one on all lanes; phases
    follow each other.
    """

    phase: int
    lane: int | None


def place_instances(instances: Instances, lanes: int) -> tuple[LanePlace, ...]:
    """Return the places of instances on lanes that wait for each other as rarely as possible.

    An instance runs on the lane of the instances that it reads from. If these ran on several lanes,
    a new phase begins, in which each lane gets a run of neighbours; a sub-graph of fewer instances
    than lanes is shared by all lanes. Instances must be in topological order.
    """
    places: list[LanePlace] = []
    for number, instance in enumerate(instances.instances):
        factor = instances.subgraphs[instance.subgraph].factor
        sources = [places[source] for source in bits(instances.predecessors[number])]
        if factor < lanes:
            lane = None
        else:
            phase = max((source.phase for source in sources), default=0)
            last = {source.lane for source in sources if source.phase == phase}
            lane = last.pop() if len(last) == 1 else None
            lane = instance.part * lanes // factor if lane is None else lane
        places.append(place_after(sources, lane))
    return tuple(places)


def place_after(sources: Sequence[LanePlace], lane: int | None) -> LanePlace:
    """Return the first place on a lane, or on all, from which no lane waits inside a phase."""
    phase = max((source.phase for source in sources), default=0)
    if lane is None:
        return LanePlace(phase | 1, None)
    if phase % 2 or any(s.phase == phase and s.lane != lane for s in sources):
        phase += 2 - phase % 2
    return LanePlace(phase, lane)
