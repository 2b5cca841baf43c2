"""Instances of a module as units of their own, without measuring which are worth it."""

from __future__ import annotations

from dataclasses import dataclass

from relay_passes.instances.apply import apply_instances
from relay_passes.prepared import Prepared
from tvm_ios.graphturbo.instances import Instances
from tvm_ios.graphturbo.policy import choose_instances, schedule_on_lanes
from tvm_ios.schedule.schedule import Schedule


@dataclass(frozen=True)
class Unrolled:
    """A module in which every instance has units of its own, and their schedule.

    ``planned`` is the schedule of the given module, for ``apply_schedule`` and files.
    """

    prepared: Prepared
    schedule: Schedule
    instances: Instances
    planned: Schedule


def graphturbo_policy(
    prepared: Prepared, *, lanes: int, capacity: int, axes: tuple[int, ...] = (0, 2)
) -> Unrolled:
    """Split a module into instances that live in so many bytes."""
    graph = prepared.outliner.extraction.graph
    instances = choose_instances(graph, prepared.units, lanes=lanes, capacity=capacity, axes=axes)
    return unroll_subgraphs(prepared, instances, lanes)


def unroll_subgraphs(prepared: Prepared, instances: Instances, lanes: int) -> Unrolled:
    """The module and the schedule of instances on lanes."""
    planned = schedule_on_lanes(prepared.units, instances, lanes)
    if planned.instances is None:
        return Unrolled(prepared, planned, instances, planned)
    unrolled = apply_instances(prepared, planned)
    return Unrolled(unrolled.prepared, unrolled.schedule, instances, planned)
