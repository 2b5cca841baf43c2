"""Plan a model for a described accelerator, or schedule it for a GPU's streams, by GraphTurbo."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tvm_ios.api.units import operators_and_tail
from tvm_ios.devices.memory_hierarchy import hierarchy_names, load_hierarchy
from tvm_ios.graph.units import form_units
from tvm_ios.graphturbo.cluster.placement import Placement
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
    """Return whether a cost names a memory hierarchy or a hierarchy's JSON file."""
    return cost in hierarchy_names() or cost.endswith(".json")


def schedule_for_streams(
    model: AnyModel, device: str, streams: int
) -> tuple[Schedule, Problem, Tail | None]:
    """Return GraphTurbo's schedule of a model on a GPU's streams, its problem and its tail.

    Instances are parts of the batch, as many at once as there are streams: each is sized to fit its
    share of the global buffer, a GPU's L2 (section 5.6); if none fits, the smallest are taken.
    ``device`` is the name or the file of a memory hierarchy, of which one cluster is used. Raise
    UserError if the model or the device cannot be read.
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
    model: AnyModel,
    device: str,
    *,
    placement: Placement = Placement.FASTEST,
    half_precision: bool = False,
    progress: Progress = silent,
) -> tuple[AcceleratorPlan, Tail | None]:
    """Plan a model with its batch divided over a device's clusters; also return its tail.

    Clusters get equally many rows of the batch, the last one fewer if need be. ``device`` is the
    name or the file of a memory hierarchy. With ``half_precision`` 32-bit numbers take 16 bits.
    Raise UserError if the model or the device cannot be read, or the model has no such batch.
    """
    hierarchy = load_hierarchy(device)
    source = ModelSource.of(model)
    if source.batch is not None:
        source = replace(source, batch=-(-source.batch // hierarchy.clusters))
    graph, tail = operators_and_tail(source)
    if half_precision:
        graph = in_half_precision(graph)
    batch = ModelSource.of(model).batch or graph.batch
    return plan_for(graph, hierarchy, batch, placement, progress), tail
