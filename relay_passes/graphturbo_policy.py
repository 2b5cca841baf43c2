"""The policy ``graphturbo`` on a CPU: lanes run whole instances, depth first."""

from __future__ import annotations

from dataclasses import dataclass

from relay_passes.prepare import Prepared, prepare_canonical
from relay_passes.relax.unroll import instance_of_units, unroll_instances
from runtime_ext.cpu_hierarchy import cpu_hierarchy
from tvm_ios.graphturbo.grouping import group
from tvm_ios.graphturbo.instance_units import instance_rule
from tvm_ios.graphturbo.instances import Instances, split_into_instances
from tvm_ios.graphturbo.lanes import LanePlace, lane_schedule, place_instances
from tvm_ios.graphturbo.layers import form_layers
from tvm_ios.graphturbo.orders import order_instances
from tvm_ios.graphturbo.split_info import Splitter
from tvm_ios.graphturbo.worth import choose_subgraphs, lane_capacities
from tvm_ios.memory_hierarchy import MemoryHierarchy
from tvm_ios.schedule import Schedule


@dataclass(frozen=True)
class Unrolled:
    """A module in which every instance has units of its own, and their schedule.

    Attributes
    ----------
    prepared, schedule
        For :func:`relay_passes.prepare.apply_schedule`.
    instances, places
        What was split, and where it runs.
    """

    prepared: Prepared
    schedule: Schedule
    instances: Instances
    places: tuple[LanePlace, ...]


def graphturbo_policy(
    prepared: Prepared,
    *,
    lanes: int,
    capacity: int | None = None,
    axes: tuple[int, ...] = (0, 2),
    device: MemoryHierarchy | None = None,
) -> Unrolled:
    """Partition a module for a CPU's lanes.

    An instance's units follow each other on one lane, so that what it computes stays in the
    cache of this lane, where the memory plan gives the next instance the same bytes. Units of
    equal instances share their kernels, and all of them their weights.

    Parameters
    ----------
    prepared
        A canonical module.
    lanes
        Execution units.
    capacity
        Bytes that an instance may live in; by default what is predicted to be best.
    axes
        That may be cut: 0 is the batch, 2 the rows of images.
    device
        Predicts which sub-graphs gain from being split; the others are not. By default this
        machine's CPU, or if a capacity is given nothing: then all are split.

    Raises
    ------
    DialectError
        If an operator has its batch written down where it cannot be changed.
    """
    extraction = prepared.outliner.extraction
    layers = form_layers(extraction.graph)
    if device is None and capacity is None:
        device = cpu_hierarchy(lanes)
    sizes = [capacity] if capacity is not None else lane_capacities(device) if device else []
    splitters = [Splitter(layers, size, lanes, axes=axes) for size in sizes]
    subgraphs = (
        group(splitters[0]) if device is None else choose_subgraphs(splitters, device).subgraphs
    )
    return unroll_subgraphs(prepared, split_into_instances(layers, subgraphs), lanes)


def unroll_subgraphs(prepared: Prepared, instances: Instances, lanes: int) -> Unrolled:
    """The module and the schedule of instances on lanes.

    Parameters
    ----------
    prepared, instances
        A module, and instances of its operators, split along the batch or rows of images.
    lanes
        Execution units.
    """
    extraction = prepared.outliner.extraction
    order = order_instances(instances, exact=False)[0].order
    unrolled = prepare_canonical(
        unroll_instances(prepared.module, extraction, instances, order),
        extraction.graph.name,
        instance_rule,
    )
    graph, units = unrolled.outliner.extraction.graph, unrolled.units
    places = place_instances(instances, lanes)
    schedule = lane_schedule(
        units,
        instance_of_units(graph, units, order),
        order,
        places,
        batch=extraction.graph.batch,
        device=f"{lanes} lanes",
    )
    return Unrolled(unrolled, schedule, instances, places)
