"""Write ``main`` instance by instance: the operators of each on its part of the batch."""

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
    """Return the module with all instances written in order, and a finder of operators' origins.

    Instances are of units as layers, split along the batch or along rows of images; ``order`` lists
    each after those that it reads from. The first unit of each of ``merged`` stands for its merged
    operators. Raise DialectError if an operator states extents that cannot be changed, and
    ScheduleError if instances need different rows of merged units.
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
