"""The policy ``graphturbo`` on a CPU: lanes run whole instances, depth first."""

from __future__ import annotations

from dataclasses import dataclass

from relay_passes.instance_schedule import unroll_schedule
from relay_passes.prepare import Prepared
from runtime_ext.cpu_hierarchy import cpu_hierarchy
from tvm_ios.graphturbo.instances import Instances
from tvm_ios.graphturbo.policy import choose_instances, instances_schedule
from tvm_ios.memory_hierarchy import MemoryHierarchy
from tvm_ios.schedule import Schedule


@dataclass(frozen=True)
class Unrolled:
    """A module in which every instance has units of its own, and their schedule.

    Attributes
    ----------
    prepared, schedule
        Of the units of instances.
    instances
        What was split.
    planned
        The schedule of the given module, for :func:`relay_passes.prepare.apply_schedule` and files.
    """

    prepared: Prepared
    schedule: Schedule
    instances: Instances
    planned: Schedule


def graphturbo_policy(
    prepared: Prepared,
    *,
    lanes: int,
    capacity: int | None = None,
    axes: tuple[int, ...] = (0, 2),
    device: MemoryHierarchy | None = None,
) -> Unrolled:
    """Partition a module for a CPU's lanes.

    Units of equal instances share their kernels, and all of them their weights.

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
    if device is None and capacity is None:
        device = cpu_hierarchy(lanes)
    graph, units = prepared.outliner.extraction.graph, prepared.units
    instances = choose_instances(
        graph, units, lanes=lanes, capacity=capacity, axes=axes, device=device
    )
    return unroll_subgraphs(prepared, instances, lanes)


def unroll_subgraphs(prepared: Prepared, instances: Instances, lanes: int) -> Unrolled:
    """The module and the schedule of instances on lanes.

    Parameters
    ----------
    prepared, instances
        A module, and instances of its units, split along the batch or rows of images.
    lanes
        Execution units.
    """
    planned = instances_schedule(prepared.units, instances, lanes, f"{lanes} lanes")
    if planned.instances is None:
        return Unrolled(prepared, planned, instances, planned)
    return Unrolled(*unroll_schedule(prepared, planned), instances, planned)
