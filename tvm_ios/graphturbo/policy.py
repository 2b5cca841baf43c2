"""The policy ``graphturbo``: which units a CPU's lanes run as instances, depth first."""

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
    """Sub-graphs of units, and their instances, each of which lives in the cache of a lane.

    Where no part of a batch does, the smallest are taken: a cache holds what it can.

    Parameters
    ----------
    graph, units
        Operators, and units of them.
    lanes
        How many lanes there are.
    capacity
        Bytes that an instance may live in; None for what is predicted to be best on the device.
    axes
        The axes that may be cut: 0 is the batch, 2 the rows of images.
    least_factor
        The fewest instances of a sub-graph that is split: as many as lanes, say.
    device
        Predicts which sub-graphs gain from being split; the others are not. If None all are.
    report
        As of :func:`tvm_ios.graphturbo.worth.choose_subgraphs`, and of
        :func:`tvm_ios.graphturbo.instances.split_into_instances`.

    Raises
    ------
    OutOfTimeError
        If the report ends the splitting.
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
    """For each capacity a splitter along any of some axes, and of a batch one along it alone.

    Parameters
    ----------
    layers
        The layers of the graph.
    capacities, lanes, axes, least_factor
        As of :class:`Splitter`; bytes.
    """
    batch = ((0,),) if layers.graph.batch > 1 and 0 in axes else ()
    return [
        Splitter(layers, size, lanes, axes=cut, least_factor=least_factor, spills=True)
        for size in capacities
        for cut in dict.fromkeys((axes, *batch))
    ]


def schedule_on_lanes(units: OpGraph, instances: Instances, lanes: int) -> Schedule:
    """Instances in the order of least memory, on lanes that rarely wait for each other.

    An instance's units follow each other on one lane, so that what it computes stays in the
    cache of this lane, where the memory plan gives the next instance the same bytes.

    Parameters
    ----------
    units, instances
        The units that :func:`choose_instances` was given, and the instances that it returned.
    lanes
        How many lanes there are.
    """
    order = order_instances(instances, exact=False)[0].order
    places = place_instances(instances, lanes)
    return planned_schedule(units, instances, order, places)
