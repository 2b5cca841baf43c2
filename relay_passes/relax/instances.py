"""Sub-graphs as private functions on a part of the batch, called once for each instance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.extract import Extraction
from relay_passes.relax.part import cut, emit_part
from relay_passes.relax.pieces import Pieces
from tvm_ios.graph import bits
from tvm_ios.graphturbo.box import extents
from tvm_ios.graphturbo.footprint import entries, exits, tensor_boxes
from tvm_ios.graphturbo.instances import Instances

#: Attributes: of the module, the partition as JSON; of a function, which sub-graph it is.
PARTITION, SUBGRAPH = "graphturbo.partition", "graphturbo.subgraph"


def outline_instances(
    module: tvm.IRModule, extraction: Extraction, instances: Instances, order: Sequence[int]
) -> tvm.IRModule:
    """The module with a function for each sub-graph, which ``main`` calls in an instance order.

    Parameters
    ----------
    module, extraction
        Canonical, and what was read from it.
    instances
        Split along the batch only.
    order
        Of all instances, each after those that it reads from.

    Raises
    ------
    DialectError
        If an operator has its batch written down where this cannot change it.
    """
    old = module["main"]
    outliner = _SubGraphs(extraction, instances)
    others = {v: f for v, f in module.functions_items() if v.name_hint != "main"}
    builder = relax.BlockBuilder(tvm.IRModule(others))
    functions = [
        builder.add_func(outliner.function(number), f"subgraph_{number}")
        for number in range(len(instances.subgraphs))
    ]
    parameters = [relax.Var(p.name, p.ty) for p in old.params]
    graph = extraction.graph
    given = dict(zip(graph.inputs, parameters, strict=True))
    pieces = Pieces(builder, extraction, instances, given)
    attributes = dict(old.attrs.items()) if old.attrs else None
    with builder.function("main", parameters, attrs=attributes):
        with builder.dataflow():
            for number in order:
                instance = instances.instances[number]
                subgraph = instance.subgraph
                data, constants, made = outliner.interface(subgraph)
                arguments = [pieces.read(number, tensor) for tensor in data]
                arguments += [extraction.values[tensor] for tensor in constants]
                result = builder.emit(relax.Call(functions[subgraph], arguments))
                for field, tensor in enumerate(made):
                    value = (
                        result
                        if len(made) == 1
                        else builder.emit(relax.TupleGetItem(result, field))
                    )
                    pieces.put(number, tensor, value, instance.owned[tensor])
            result = pieces.emit_output(old)
        builder.emit_func_output(result)
    made_functions = dict(builder.finalize().functions_items())
    attributes = dict(module.attrs.items()) if module.attrs else {}
    attributes[PARTITION] = json.dumps(
        {
            "factors": [subgraph.factor for subgraph in instances.subgraphs],
            "order": [
                [instances.instances[i].subgraph, instances.instances[i].part] for i in order
            ],
        }
    )
    return tvm.IRModule(made_functions, attrs=attributes)


class _SubGraphs:
    """The functions of sub-graphs: all instances of one are the same computation."""

    def __init__(self, extraction: Extraction, instances: Instances) -> None:
        self._extraction = extraction
        self._instances = instances

    def interface(self, subgraph: int) -> tuple[list[int], list[int], list[int]]:
        """Data that it reads, constants that it reads, and what it makes: tensors."""
        layers, graph = self._instances.layers, self._extraction.graph
        mask = self._instances.subgraphs[subgraph].layers
        constants = dict.fromkeys(
            tensor
            for layer in bits(mask)
            for op in layers.members[layer]
            for tensor in graph.operators[op].inputs
            if graph.tensors[tensor].constant and graph.tensors[tensor].shape
        )
        return list(entries(layers, mask)), list(constants), list(exits(layers, mask))

    def function(self, subgraph: int) -> relax.Function:
        """A private function of the data and the constants."""
        data, constants, results = self.interface(subgraph)
        first = next(i for i in self._instances.instances if i.subgraph == subgraph)
        tensors = self._extraction.graph.tensors
        parameters = [
            relax.Var(f"p{place}", relax.TensorType(extents(first.needs[t]), tensors[t].dtype))
            for place, t in enumerate(data)
        ]
        parameters += [
            relax.Var(f"p{place}", self._extraction.values[t].ty)
            for place, t in enumerate(constants, len(data))
        ]
        made: dict[int, Any] = dict(zip((*data, *constants), parameters, strict=True))
        layers, mask = self._instances.layers, self._instances.subgraphs[subgraph].layers
        boxes = tensor_boxes(layers, mask, first.owned)
        builder = relax.BlockBuilder()
        attributes = {"num_input": len(data), SUBGRAPH: subgraph}
        with builder.function("subgraph", parameters, attrs=attributes, private=True):
            with builder.dataflow():
                for layer in bits(mask):
                    for op in layers.members[layer]:
                        emit_part(builder, self._extraction, op, made, boxes)
                own = [cut(builder, made[t], boxes[t], first.owned[t]) for t in results]
                output = builder.emit_output(own[0] if len(own) == 1 else relax.Tuple(own))
            variable = builder.emit_func_output(output)
        return builder.finalize()[variable]
