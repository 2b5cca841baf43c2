"""Sub-graphs as private functions on a part of the batch, called once for each instance."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tvm

from relay_passes.dialect import Dialect, dialect_of
from relay_passes.emitter import Emitter
from relay_passes.instances.part import available_box, cut, emit_part, reads
from relay_passes.instances.pieces import Pieces
from runtime_ext.ir_form import attribute_text
from tvm_ios.graph.op_graph import bits
from tvm_ios.graphturbo.box import Box, extents
from tvm_ios.graphturbo.footprint import entries, exits, tensor_boxes
from tvm_ios.graphturbo.instances import Instance, Instances

#: Attributes: of the module, the partition as JSON; of a function, its sub-graph's number.
PARTITION, SUBGRAPH = "graphturbo.partition", "graphturbo.subgraph"
#: Other operators in ``main``, with which an :class:`Emitter` slices and joins.
_CUT_AND_JOINED = {"relax.strided_slice", "relax.concat", "strided_slice", "concatenate"}


def outline_instances(
    dialect: Dialect,
    module: tvm.IRModule,
    extraction: Any,
    instances: Instances,
    order: Sequence[int],
) -> tvm.IRModule:
    """Rewrite ``main`` as calls of one private function per sub-graph, instance by instance.

    ``order`` lists all instances, each after those that it reads from; they are split along the
    batch only. A sub-graph gets more than one function if its instances read different parts of
    their inputs (for example, images in another order). Raise DialectError if an operator states a
    batch that cannot be changed.
    """

    def main(emitter: Emitter, parameters: Sequence[Any]) -> list[Any]:
        pieces = Pieces(emitter, instances, extraction.values, parameters)
        subgraphs = [_SubGraph(instances, n) for n in range(len(instances.subgraphs))]
        for number in order:
            instance = instances.instances[number]
            subgraph = subgraphs[instance.subgraph]
            arguments = [pieces.read(number, tensor) for tensor in subgraph.data]
            arguments += [extraction.values[tensor] for tensor in subgraph.constants]
            function = subgraph.function(emitter, instance)
            values = emitter.call(function, arguments, len(subgraph.results))
            for tensor, value in zip(subgraph.results, values, strict=True):
                pieces.put(number, tensor, value, instance.owned[tensor])
        return pieces.results()

    partition = {
        "factors": [subgraph.factor for subgraph in instances.subgraphs],
        "order": [[instances.instances[i].subgraph, instances.instances[i].part] for i in order],
    }
    rewritten, _ = dialect.rewrite_main(module, extraction, main)
    return rewritten.with_attr(PARTITION, dialect.attribute(json.dumps(partition)))


def is_partitioned(module: tvm.IRModule) -> bool:
    """Return whether ``main`` still calls sub-graphs in the order of the partition attribute."""
    if not module.attrs or PARTITION not in module.attrs:
        return False
    called: list[int] = []
    for call in dialect_of(module).calls_of(module):
        if isinstance(call.op, tvm.ir.GlobalVar):
            attributes = module[call.op].attrs
            if not attributes or SUBGRAPH not in attributes:
                return False
            called.append(int(attributes[SUBGRAPH]))
        elif getattr(call.op, "name", None) not in _CUT_AND_JOINED:
            return False
    partition = json.loads(attribute_text(module.attrs[PARTITION]))
    return called == [subgraph for subgraph, _ in partition["order"]]


def without_subgraphs(dialect: Dialect, module: tvm.IRModule) -> tvm.IRModule:
    """Remove the functions of sub-graphs from a canonical module, whose ``main`` calls none."""
    kept = {v: f for v, f in module.functions.items() if not (f.attrs and SUBGRAPH in f.attrs)}
    return dialect.with_functions(module, kept)


class _SubGraph:
    """A sub-graph, with one function for all instances that do the same computation.

    ``data``, ``constants`` and ``results`` are the tensors that it reads and makes.
    """

    def __init__(self, instances: Instances, number: int) -> None:
        self._number = number
        self._layers = instances.layers
        self._mask = instances.subgraphs[number].layers
        self._functions: dict[tuple[Box, ...], Any] = {}
        graph = self._layers.graph
        self.data = list(entries(self._layers, self._mask))
        self.results = list(exits(self._layers, self._mask))
        read = (tensor for op in self._operators() for tensor in graph.operators[op].inputs)
        constants = (t for t in read if graph.tensors[t].constant and graph.tensors[t].shape)
        self.constants = list(dict.fromkeys(constants))

    def function(self, emitter: Emitter, instance: Instance) -> Any:
        """Return the private function that computes an instance, and write it at first use."""
        tensors = self._layers.graph.tensors
        boxes = tensor_boxes(self._layers, self._mask, instance.owned)
        places = self._places(instance, boxes)
        if places not in self._functions:

            def body(emitter: Emitter, parameters: Sequence[Any]) -> list[Any]:
                values = dict(zip((*self.data, *self.constants), parameters, strict=True))
                for op in self._operators():
                    emit_part(emitter, self._layers.graph, op, values, boxes)
                owned = instance.owned
                return [cut(emitter, values[t], boxes[t], owned[t]) for t in self.results]

            data = [(extents(instance.needs[t]), tensors[t].dtype) for t in self.data]
            attributes = {"num_input": len(data), SUBGRAPH: self._number}
            name = f"subgraph_{self._number}"
            if self._functions:
                name += f"_{len(self._functions)}"
            self._functions[places] = emitter.function(name, attributes, data, self.constants, body)
        return self._functions[places]

    def _places(self, instance: Instance, boxes: Mapping[int, Box]) -> tuple[Box, ...]:
        """Return the boxes that an instance reads and returns, relative to its tensors.

        Instances with equal boxes have the same code.
        """
        graph = self._layers.graph
        boxes_read = [_within(need, need) for need in instance.needs.values()]
        for op in self._operators():
            result_boxes = {t: boxes[t] for t in graph.operators[op].outputs if t in boxes}
            for tensor, box in reads(graph, op, result_boxes).items():
                boxes_read.append(_within(available_box(graph, boxes, tensor), box))
        return (*boxes_read, *(_within(boxes[t], instance.owned[t]) for t in self.results))

    def _operators(self) -> list[int]:
        return [op for layer in bits(self._mask) for op in self._layers.members[layer]]


def _within(outer: Box, box: Box) -> Box:
    """Return a box relative to the first element of an outer box that contains it."""
    return tuple((b - first, e - first) for (b, e), (first, _) in zip(box, outer, strict=True))
