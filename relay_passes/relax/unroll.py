"""``main`` instance by instance: the operators of each on its part of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.extract import Extraction
from relay_passes.relax.merged_part import MergedUnits, emit_merged_part, require_same_rows
from relay_passes.relax.part import emit_part
from relay_passes.relax.pieces import Pieces, emit_results
from relay_passes.relax.resized import emit_resized
from tvm_ios.graph import bits
from tvm_ios.graphturbo.footprint import tensor_boxes
from tvm_ios.graphturbo.instances import Instances
from tvm_ios.graphturbo.unrolled_names import kept_name, name_prefix, read_name
from tvm_ios.graphturbo.workload import with_batch


def unroll_instances(
    module: tvm.IRModule,
    extraction: Extraction,
    instances: Instances,
    order: Sequence[int],
    merged: Sequence[MergedUnits] = (),
) -> tvm.IRModule:
    """The module with the operators of the instances in an order, and no functions for these.

    Parameters
    ----------
    module, extraction
        Canonical, and what was read from it.
    instances
        Of units as layers, split along the batch, or along rows of images.
    order
        Of all instances, each after those that it reads from.
    merged
        Units that their instances merge; the first of them has the merged operators.

    Raises
    ------
    DialectError
        If an operator has extents written down that this cannot change.
    ScheduleError
        If instances need different rows of what is to be merged.
    """
    for units in merged:
        require_same_rows(instances, units)
    old = module["main"]
    graph, layers = extraction.graph, instances.layers
    first = {units.plan.units[0]: units for units in merged}
    others = {unit for units in merged for unit in units.plan.units[1:]}
    builder = relax.BlockBuilder()
    parameters = [relax.Var(p.name, p.ty) for p in old.params]
    given = dict(zip(graph.inputs, parameters, strict=True))
    constants = {
        number: extraction.values[number]
        for number, tensor in enumerate(graph.tensors)
        if tensor.constant
    }
    pieces = Pieces(builder, extraction, instances, given)
    attributes = dict(old.attrs.items()) if old.attrs else None
    with builder.function("main", parameters, attrs=attributes):
        with builder.dataflow():
            for number in order:
                instance = instances.instances[number]
                mask = instances.subgraphs[instance.subgraph].layers
                boxes = tensor_boxes(layers, mask, instance.owned)
                made = dict(constants)
                for tensor in instance.needs:
                    made[tensor] = pieces.read(number, tensor, read_name(number))
                for layer in bits(mask):
                    prefix = name_prefix(number, layer)
                    if layer in first:
                        emit_merged_part(builder, layers, first[layer], made, boxes, prefix)
                    elif layer not in others:
                        for op in layers.members[layer]:
                            emit_part(builder, extraction, op, made, boxes, prefix)
                for tensor in instance.owned:
                    pieces.put(number, tensor, made[tensor], boxes[tensor], kept_name(number))
            result = pieces.emit_output(old)
        builder.emit_func_output(result)
    return tvm.IRModule(dict(builder.finalize().functions_items()), attrs=module.attrs)


def rebatch(module: tvm.IRModule, extraction: Extraction, batch: int) -> tvm.IRModule:
    """A module for a batch of one, for so many images.

    Parameters
    ----------
    module, extraction
        Canonical, and what was read from it.
    batch
        Images; :func:`tvm_ios.graphturbo.workload.with_batch` must accept the graph.
    """
    wide = with_batch(extraction.graph, batch)
    old = module["main"]
    builder = relax.BlockBuilder()
    graph = extraction.graph
    parameters = [
        relax.Var(p.name, relax.TensorType(list(wide.tensors[t].shape), wide.tensors[t].dtype))
        for p, t in zip(old.params, graph.inputs, strict=True)
    ]
    made: dict[int, Any] = dict(zip(graph.inputs, parameters, strict=True))
    for number, tensor in enumerate(graph.tensors):
        if tensor.constant:
            made[number] = extraction.values[number]
            if wide.tensors[number].shape != tensor.shape:
                array = extraction.values[number].value.numpy()
                made[number] = relax.const(array.repeat(batch, axis=0), tensor.dtype)
    attributes = dict(old.attrs.items()) if old.attrs else None
    with builder.function("main", parameters, attrs=attributes):
        with builder.dataflow():
            for op in range(len(graph)):
                emit_resized(builder, extraction, op, made, lambda t: wide.tensors[t].shape)
            result = emit_results(builder, old, [made[t] for t in graph.outputs])
        builder.emit_func_output(result)
    return tvm.IRModule(dict(builder.finalize().functions_items()), attrs=module.attrs)
