"""Merged units of an instance: one convolution that computes the same rows of all their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relay_passes.emitter import Emitter
from relay_passes.instances.part import cut, pads_of
from relay_passes.unit_outliner import UnitOutliner
from tvm_ios.graph.merge_rule import MergePlan
from tvm_ios.graphturbo.box import Box, hull, whole
from tvm_ios.graphturbo.footprint import tensor_boxes
from tvm_ios.graphturbo.instances import Instances
from tvm_ios.graphturbo.layers import Layers
from tvm_ios.schedule.schedule import ScheduleError


@dataclass(frozen=True)
class MergedUnits:
    """Units that every instance of their sub-graph computes as one convolution."""

    plan: MergePlan
    #: Tensors of the extraction: the common input, and the result of each unit.
    data: int
    outputs: tuple[int, ...]
    #: The stacked kernel and bias, of which instances share one copy.
    weights: tuple[Any, Any]


def merged_units(outliner: UnitOutliner[Any], members: Sequence[int]) -> MergedUnits:
    """Return the merged form of a merge stage's units; raise ScheduleError if they do not merge."""
    plan = outliner.merge_plan(members)
    operators = [outliner.units.operators[unit] for unit in plan.units]
    number = outliner.extraction.number
    return MergedUnits(
        plan,
        number[outliner.value(operators[0].inputs[0])],
        tuple(number[outliner.value(op.outputs[0])] for op in operators),
        outliner.stacked_weights(plan),
    )


def require_same_rows(instances: Instances, merged: MergedUnits) -> None:
    """Raise ScheduleError if some instance needs different rows of the merged units' results."""
    layers = instances.layers
    for instance in instances.instances:
        mask = instances.subgraphs[instance.subgraph].layers
        if not mask >> merged.plan.units[0] & 1:
            continue
        boxes = tensor_boxes(layers, mask, instance.owned)
        result_boxes = [boxes.get(tensor, ()) for tensor in merged.outputs]
        if len({(box[:1], box[2:]) for box in result_boxes}) > 1:
            names = ", ".join(layers.graph.tensors[tensor].name for tensor in merged.outputs)
            raise ScheduleError(
                f"what makes {names} cannot be merged into one convolution, because instances "
                "need different rows of them: let stages run these units one by one, or split "
                "the batch"
            )


def emit_merged_part(
    emitter: Emitter,
    layers: Layers,
    merged: MergedUnits,
    values: dict[int, Any],
    boxes: Mapping[int, Box],
) -> None:
    """Write merged units for boxes of their results, which have the same rows.

    ``values`` and ``boxes`` are as in :func:`relay_passes.instances.part.emit_part`.
    """
    plan, tensors = merged.plan, layers.graph.tensors
    parts = [boxes[tensor] for tensor in merged.outputs if tensor in boxes]
    if not parts:
        return
    need: Box | None = None
    for unit, tensor, box in zip(plan.units, merged.outputs, parts, strict=True):
        need = hull(need, layers.needs(unit, {tensor: box})[0][merged.data])
    assert need is not None
    data = cut(emitter, values[merged.data], boxes[merged.data], need)
    pads = None
    if parts[0][2:] != whole(tensors[merged.outputs[0]].shape)[2:]:
        extents = tensors[merged.data].shape[2:]
        pads = pads_of(parts[0], extents, plan.kernel, plan.strides, plan.pads, plan.dilations)
    outputs = emitter.stacked(plan, data, merged.weights, pads)
    values.update(zip(merged.outputs, outputs, strict=True))
