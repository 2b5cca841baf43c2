"""Sub-graphs as private functions on a part of the batch, called once for each instance."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.bindings import DialectError, leaves, static_shape, substitute
from relay_passes.relax.extract import Extraction
from relay_passes.relax.lrn import emit_lrn
from tvm_ios.graph import bits
from tvm_ios.graphturbo.box import Box
from tvm_ios.graphturbo.dimensions import Dimensions
from tvm_ios.graphturbo.footprint import entries, exits
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
        Split along outermost axes only.
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
    pieces: dict[tuple[int, int], Any] = {}
    attributes = dict(old.attrs.items()) if old.attrs else None
    with builder.function("main", parameters, attrs=attributes):
        with builder.dataflow():
            for number in order:
                subgraph = instances.instances[number].subgraph
                data, constants, made = outliner.interface(subgraph)
                arguments = [
                    read_pieces(builder, instances, number, tensor, given, pieces)
                    for tensor in data
                ]
                arguments += [extraction.values[tensor] for tensor in constants]
                result = builder.emit(relax.Call(functions[subgraph], arguments))
                for field, tensor in enumerate(made):
                    pieces[tensor, number] = (
                        result
                        if len(made) == 1
                        else builder.emit(relax.TupleGetItem(result, field))
                    )
            results = [
                join_pieces(builder, [pieces[tensor, maker] for maker in instances.makers[tensor]])
                if tensor in instances.makers
                else given.get(tensor, extraction.values[tensor])
                for tensor in graph.outputs
            ]
            several = len(results) > 1 or isinstance(old.ret_ty, relax.TupleType)
            result = builder.emit_output(relax.Tuple(results) if several else results[0])
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


def read_pieces(
    builder: relax.BlockBuilder,
    instances: Instances,
    number: int,
    tensor: int,
    given: Mapping[int, Any],
    pieces: Mapping[tuple[int, int], Any],
    name: str = "",
) -> Any:
    """What an instance reads of a tensor: pieces of its makers, cut and joined."""
    need = instances.instances[number].needs[tensor]
    if tensor not in instances.makers:
        shape = instances.layers.graph.tensors[tensor].shape
        return _cut(builder, given[tensor], (0, shape[0]), need, name)
    return join_pieces(
        builder,
        [
            _cut(
                builder,
                pieces[tensor, maker],
                instances.instances[maker].owned[tensor][0],
                need,
                name,
            )
            for maker in instances.sources(number, tensor)
        ],
        name,
    )


def _cut(
    builder: relax.BlockBuilder, value: Any, held: tuple[int, int], need: Box, name: str
) -> Any:
    begin, end = max(held[0], need[0][0]), min(held[1], need[0][1])
    if (begin, end) == held:
        return value
    span = ([begin - held[0]], [end - held[0]])
    return builder.emit(relax.op.strided_slice(value, [0], *span), name)


def join_pieces(builder: relax.BlockBuilder, parts: list[Any], name: str = "") -> Any:
    """Pieces of the batch behind each other."""
    return parts[0] if len(parts) == 1 else builder.emit(relax.op.concat(parts, axis=0), name)


class _SubGraphs:
    """The functions of sub-graphs: all instances of one are the same computation."""

    def __init__(self, extraction: Extraction, instances: Instances) -> None:
        self._extraction = extraction
        self._instances = instances
        self._dimensions = Dimensions(extraction.graph)

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
            relax.Var(
                f"p{place}",
                relax.TensorType([end - begin for begin, end in first.needs[t]], tensors[t].dtype),
            )
            for place, t in enumerate(data)
        ]
        parameters += [
            relax.Var(f"p{place}", self._extraction.values[t].ty)
            for place, t in enumerate(constants, len(data))
        ]
        made: dict[int, Any] = dict(zip((*data, *constants), parameters, strict=True))
        builder = relax.BlockBuilder()
        attributes = {"num_input": len(data), SUBGRAPH: subgraph}
        layers = self._instances.layers
        with builder.function("subgraph", parameters, attrs=attributes, private=True):
            with builder.dataflow():
                for layer in bits(self._instances.subgraphs[subgraph].layers):
                    for op in layers.members[layer]:
                        emit_for_a_part(
                            builder,
                            self._extraction,
                            op,
                            made,
                            lambda t: part_shape(self._instances, self._dimensions, subgraph, t),
                        )
                whole = [made[tensor] for tensor in results]
                output = builder.emit_output(whole[0] if len(whole) == 1 else relax.Tuple(whole))
            variable = builder.emit_func_output(output)
        for tensor in results:
            expected = tuple(end - begin for begin, end in first.owned[tensor])
            if static_shape(made[tensor]) != expected:
                raise DialectError(
                    f"the batch of tensor {tensors[tensor].name!r} is written down in an operator "
                    "before it: export the model with the batch as a dynamic dimension"
                )
        return builder.finalize()[variable]


def emit_for_a_part(
    builder: relax.BlockBuilder,
    extraction: Extraction,
    op: int,
    made: dict[int, Any],
    shape_of: Callable[[int], Sequence[int]],
    prefix: str | None = None,
) -> None:
    """Emit an operator for fewer, or for more, images than it was written for.

    Parameters
    ----------
    builder, extraction, op
        Which operator, and where to.
    made
        Maps tensors of the extraction to the builder's values; gets the operator's results.
    shape_of
        The shape of a tensor there, asked where an operator has it written down.
    prefix
        Of the names of the results.
    """
    operator = extraction.graph.operators[op]
    if operator.kind == "lrn":
        made[operator.outputs[0]] = emit_lrn(builder, made[operator.inputs[0]], operator.attrs)
        return
    inner: dict[Any, Any] = {}
    for binding in extraction.bindings[op]:
        replacement = dict(inner)
        for leaf in leaves(binding.value):
            number = extraction.number.get(leaf)
            if number in made:
                replacement[leaf] = made[number]
        value = substitute(binding.value, replacement)
        if operator.kind == "reshape":
            value = relax.op.reshape(value.args[0], list(shape_of(operator.outputs[0])))
        hint = "" if prefix is None else f"{prefix}{binding.var.name}"
        result = builder.emit(value, hint)
        inner[binding.var] = result
        if binding.var in extraction.number:
            made[extraction.number[binding.var]] = result


def part_shape(
    instances: Instances, dimensions: Dimensions, subgraph: int, tensor: int
) -> list[int]:
    """The shape of a tensor inside an instance of a sub-graph that is split evenly."""
    shape = list(instances.layers.graph.tensors[tensor].shape)
    split = instances.subgraphs[subgraph].split
    if split is None or split.factor == 1:
        return shape
    output, axis = next(iter(split.axes.items()))
    cut = dimensions.matching_axis(dimensions.of(output)[axis], tensor)
    if cut is not None:
        shape[cut] //= split.factor
    return shape
