"""``main`` instance by instance: the operators of each on its part of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm

from relay_passes.emitter import Emitter, OriginsOf
from relay_passes.instances.merged_part import MergedUnits, emit_merged_part, require_same_rows
from relay_passes.instances.part import emit_part
from relay_passes.instances.pieces import Pieces
from relay_passes.prepared import Prepared
from tvm_ios.graph.op_graph import bits
from tvm_ios.graphturbo.footprint import tensor_boxes
from tvm_ios.graphturbo.instances import Instances
from tvm_ios.graphturbo.origins import Origin


def unroll_instances(
    prepared: Prepared,
    instances: Instances,
    order: Sequence[int],
    merged: Sequence[MergedUnits] = (),
) -> tuple[tvm.IRModule, OriginsOf]:
    """The module with the operators of the instances in an order, and no functions for these.

    Parameters
    ----------
    prepared
        A module and its units.
    instances
        The instances, of units as layers, split along the batch or along rows of images.
    order
        The order of all instances, each after those that it reads from.
    merged
        Units that their instances merge; the first of them has the merged operators.

    Returns
    -------
    tuple
        The module, and what finds the origins of the operators that are extracted from it.

    Raises
    ------
    DialectError
        If an operator has extents written down that this cannot change.
    ScheduleError
        If instances need different rows of what is to be merged.
    """
    for units in merged:
        require_same_rows(instances, units)
    extraction, layers = prepared.outliner.extraction, instances.layers
    graph = extraction.graph
    first = {units.plan.units[0]: units for units in merged}
    others = {unit for units in merged for unit in units.plan.units[1:]}

    def main(emitter: Emitter, parameters: Sequence[Any]) -> list[Any]:
        pieces = Pieces(emitter, instances, extraction.values, parameters)
        constants = {
            number: extraction.values[number]
            for number, tensor in enumerate(graph.tensors)
            if tensor.constant
        }
        for number in order:
            instance = instances.instances[number]
            mask = instances.subgraphs[instance.subgraph].layers
            boxes = tensor_boxes(layers, mask, instance.owned)
            values = dict(constants)
            emitter.origin = Origin(number)
            for tensor in instance.needs:
                values[tensor] = pieces.read(number, tensor)
            for layer in bits(mask):
                emitter.origin = Origin(number, layer)
                if layer in first:
                    emit_merged_part(emitter, layers, first[layer], values, boxes)
                elif layer not in others:
                    for op in layers.members[layer]:
                        emit_part(emitter, graph, op, values, boxes)
            emitter.origin = Origin(number, for_others=True)
            for tensor in instance.owned:
                pieces.put(number, tensor, values[tensor], boxes[tensor])
        emitter.origin = Origin()
        return pieces.results()

    return prepared.dialect.rewrite_main(prepared.module, extraction, main)
