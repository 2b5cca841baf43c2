"""The choice of units that a CPU's lanes run as instances, depth first, for ``graphturbo``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.grouping import group
from tvm_ios.graphturbo.instances import Instances, split_into_instances
from tvm_ios.graphturbo.lanes import place_instances
from tvm_ios.graphturbo.layers import Layers, unit_layers
from tvm_ios.graphturbo.orders import order_instances
from tvm_ios.graphturbo.planned import planned_schedule
from tvm_ios.graphturbo.split_info import Splitter
from tvm_ios.graphturbo.worth import choose_subgraphs, lane_capacities
from tvm_ios.schedule.schedule import Schedule


def choose_instances(
    graph: OpGraph,
    units: OpGraph,
    *,
    lanes: int,
    capacity: int | None,
    axes: tuple[int, ...] = (0, 2),
    least_factor: int = 1,
    device: MemoryHierarchy | None = None,
    report: Callable[[int, int], bool] = lambda _done, _total: True,
) -> Instances:
    """Return sub-graphs of units and their instances, each of which fits the cache of a lane.

    If no part of a batch fits, the smallest are taken.

    ``capacity`` is the bytes that an instance may occupy; None for the size that is predicted to be
    best on the device. ``axes`` may be cut: 0 is the batch, 2 the rows of images. ``least_factor``
    is the fewest instances of a sub-graph that is split. ``device`` predicts which sub-graphs gain
    from being split, and only these are; None: all are. ``report`` is called as by
    :func:`tvm_ios.graphturbo.worth.choose_subgraphs` and
    :func:`tvm_ios.graphturbo.instances.split_into_instances`. Raise OutOfTimeError if it ends the
    splitting.
    """
    layers = unit_layers(graph, units)
    if capacity is None and device is None:
        raise ValueError("neither a capacity nor a device that tells it")
    sizes = [capacity] if capacity is not None else lane_capacities(device) if device else []
    splitters = lane_splitters(layers, sizes, lanes, axes, least_factor)
    if device is None:
        return split_into_instances(layers, group(splitters[0]), report)
    subgraphs = choose_subgraphs(splitters, device, report).subgraphs
    return split_into_instances(layers, subgraphs, report)


def lane_splitters(
    layers: Layers,
    capacities: Sequence[int],
    lanes: int,
    axes: tuple[int, ...] = (0, 2),
    least_factor: int = 1,
) -> list[Splitter]:
    """Return splitters for each capacity, along any of the axes, and of a batch, along it alone."""
    batch = ((0,),) if layers.graph.batch > 1 and 0 in axes else ()
    return [
        Splitter(layers, size, lanes, axes=cut, least_factor=least_factor, spills=True)
        for size in capacities
        for cut in dict.fromkeys((axes, *batch))
    ]


def schedule_on_lanes(units: OpGraph, instances: Instances, lanes: int) -> Schedule:
    """Return a schedule of instances in the order of least memory, on lanes that rarely wait.

    An instance's units follow each other on one lane, so that what it computes stays in the cache
    of this lane, where the memory plan gives the next instance the same bytes. The units and
    instances are those of :func:`choose_instances`.
    """
    order = order_instances(instances, exact=False)[0].order
    places = place_instances(instances, lanes)
    return planned_schedule(units, instances, order, places)
