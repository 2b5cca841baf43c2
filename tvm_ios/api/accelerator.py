"""GraphTurbo's plan of a model for a described accelerator, or its schedule for a GPU's streams."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tvm_ios.api.units import operators_and_tail
from tvm_ios.devices.memory_hierarchy import hierarchy_names, load_hierarchy
from tvm_ios.graph.units import form_units
from tvm_ios.graphturbo.cluster.plan import AcceleratorPlan, plan_for
from tvm_ios.graphturbo.cluster.workload import in_half_precision
from tvm_ios.graphturbo.grouping import group
from tvm_ios.graphturbo.instances import split_into_instances
from tvm_ios.graphturbo.layers import unit_layers
from tvm_ios.graphturbo.policy import lane_splitters, schedule_on_lanes
from tvm_ios.models.source import AnyModel, ModelSource
from tvm_ios.policies.policy import Problem
from tvm_ios.progress import Progress, silent

if TYPE_CHECKING:
    from tvm_ios.onnx.tail import Tail
    from tvm_ios.schedule.schedule import Schedule


def names_accelerator(cost: str) -> bool:
    """Whether a cost is a memory hierarchy, or can only be the file of one."""
    return cost in hierarchy_names() or cost.endswith(".json")


def schedule_for_streams(
    model: AnyModel, device: str, streams: int
) -> tuple[Schedule, Problem, Tail | None]:
    """A schedule with instances on the streams of a GPU, of what, and what runs after it.

    Instances are parts of the batch. As many run at once as there are streams: each fits its share
    of the global buffer, a GPU's L2 (section 5.6); where none does, the smallest are taken.

    Parameters
    ----------
    model
        Any model.
    device
        The name of a memory hierarchy, or its file; one cluster of it.
    streams
        How many streams there are.

    Raises
    ------
    UserError
        If the model or the device cannot be read; one sentence.
    """
    hierarchy = load_hierarchy(device)
    operators, tail = operators_and_tail(model)
    units = form_units(operators)
    share = hierarchy.global_buffer // streams
    splitter = lane_splitters(unit_layers(operators, units), [share], streams, axes=(0,))[0]
    instances = split_into_instances(splitter.layers, group(splitter))
    schedule = schedule_on_lanes(units, instances, streams)
    problem = Problem.of(units, len(units), operators)
    return replace(schedule, device=hierarchy.name), problem, tail


def plan_for_accelerator(
    model: AnyModel, device: str, *, half_precision: bool = False, progress: Progress = silent
) -> tuple[AcceleratorPlan, Tail | None]:
    """The plan of a model whose batch is divided over the clusters, and what runs after it.

    Parameters
    ----------
    model
        Any model; its batch is that of all clusters, which get equally many, or the last one fewer.
    device
        The name of a memory hierarchy, or its file.
    half_precision
        Whether all numbers of 32 bits take 16.
    progress
        Called with (what, done, total).

    Raises
    ------
    UserError
        If the model or the device cannot be read, or the model has no such batch; one sentence.
    """
    hierarchy = load_hierarchy(device)
    source = ModelSource.of(model)
    if source.batch is not None:
        source = replace(source, batch=-(-source.batch // hierarchy.clusters))
    graph, tail = operators_and_tail(source)
    if half_precision:
        graph = in_half_precision(graph)
    batch = ModelSource.of(model).batch or graph.batch
    return plan_for(graph, hierarchy, batch, progress), tail
