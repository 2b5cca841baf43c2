"""Merged units of an instance: one convolution for the same part of all their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax

from relay_passes.relax.fold_constants import constant
from relay_passes.relax.merge import emit_stacked
from relay_passes.relax.outline import Outliner
from relay_passes.relax.part import cut, pads_of
from tvm_ios.graphturbo.box import Box, hull, whole
from tvm_ios.graphturbo.footprint import tensor_boxes
from tvm_ios.graphturbo.instances import Instances
from tvm_ios.graphturbo.layers import Layers
from tvm_ios.merge_rule import MergePlan
from tvm_ios.merged_weights import merged_weights
from tvm_ios.schedule import ScheduleError


@dataclass(frozen=True)
class MergedUnits:
    """Units that every instance of their sub-graph computes as one convolution.

    Attributes
    ----------
    plan
        Of the units.
    data, outputs
        Tensors of the extraction: what all read, and what each makes.
    weights
        The stacked kernel and bias, of which instances share one copy.
    """

    plan: MergePlan
    data: int
    outputs: tuple[int, ...]
    weights: tuple[Any, Any]


def merged_units(outliner: Outliner, members: Sequence[int]) -> MergedUnits:
    """The units of a merge stage.

    Raises
    ------
    ScheduleError
        If they cannot be merged.
    """
    plan = outliner.merge_plan(members)
    operators = [outliner.units.operators[unit] for unit in plan.units]
    number = outliner.extraction.number
    stacked, bias = merged_weights(plan, outliner.weights_to_merge(plan))
    return MergedUnits(
        plan,
        number[outliner.value(operators[0].inputs[0])],
        tuple(number[outliner.value(op.outputs[0])] for op in operators),
        (constant(stacked), constant(bias)),
    )


def require_same_rows(instances: Instances, merged: MergedUnits) -> None:
    """Refuse units of which instances need different parts.

    Raises
    ------
    ScheduleError
        If one does.
    """
    layers = instances.layers
    for instance in instances.instances:
        mask = instances.subgraphs[instance.subgraph].layers
        if not mask >> merged.plan.units[0] & 1:
            continue
        boxes = tensor_boxes(layers, mask, instance.owned)
        held = [boxes.get(tensor, ()) for tensor in merged.outputs]
        if len({(box[:1], box[2:]) for box in held}) > 1:
            names = ", ".join(layers.graph.tensors[tensor].name for tensor in merged.outputs)
            raise ScheduleError(
                f"what makes {names} cannot be merged into one convolution, because instances "
                "need different rows of them: let stages run these units one by one, or split "
                "the batch"
            )


def emit_merged_part(
    builder: relax.BlockBuilder,
    layers: Layers,
    merged: MergedUnits,
    made: dict[int, Any],
    boxes: Mapping[int, Box],
    prefix: str,
) -> None:
    """Emit merged units for boxes of their results, the same rows of all.

    Parameters
    ----------
    builder, made, boxes, prefix
        As of :func:`relay_passes.relax.part.emit_part`.
    layers, merged
        Of the graph, and which units.
    """
    plan, tensors = merged.plan, layers.graph.tensors
    held = [boxes[tensor] for tensor in merged.outputs if tensor in boxes]
    if not held:
        return
    need: Box | None = None
    for unit, tensor, box in zip(plan.units, merged.outputs, held, strict=True):
        need = hull(need, layers.needs(unit, {tensor: box})[0][merged.data])
    assert need is not None
    data = cut(builder, made[merged.data], boxes[merged.data], need, f"{prefix}cut")
    pads = None
    if held[0][2:] != whole(tensors[merged.outputs[0]].shape)[2:]:
        extents = tensors[merged.data].shape[2:]
        pads = pads_of(held[0], extents, plan.kernel, plan.strides, plan.pads, plan.dilations)
    name = f"{prefix}merged"
    outputs = emit_stacked(builder, plan, data, merged.weights, pads=pads, name=name)
    made.update(zip(merged.outputs, outputs, strict=True))
