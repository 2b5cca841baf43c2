"""The beginning of an ONNX model, with what the rest reads as its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx

from tvm_ios.onnx.inputs import free_inputs

#: What these make are numbers as soon as shapes are static.
_SHAPES = ("Shape", "Size")


def computed_operators(model: Any) -> list[int]:
    """The places of the operators of a model whose outputs depend on its inputs' values."""
    varies = {value.name for value in free_inputs(model)}
    places: list[int] = []
    for place, node in enumerate(model.graph.node):
        if node.op_type not in _SHAPES and not varies.isdisjoint(names_read(node)):
            varies.update(filter(None, node.output))
            places.append(place)
    return places


def cut_after(model: Any, place: int, shapes: Mapping[str, Sequence[int]]) -> Any:
    """A model of the operators up to one.

    Parameters
    ----------
    model
        An ``onnx.ModelProto`` whose operators stand in an order in which they can run; it is not
        changed.
    place
        The place of the last operator to keep.
    shapes
        The shape of each input.

    Returns
    -------
    onnx.ModelProto
        Its outputs depend on the inputs' values, and the rest of the model or its outputs read
        them. All its inputs are static, and it may have such as nothing reads.
    """
    nodes = model.graph.node
    kept, rest = nodes[: place + 1], nodes[place + 1 :]
    wanted = {value.name for value in model.graph.output}.union(*map(names_read, rest))
    places = (n for n in computed_operators(model) if n <= place)
    outputs = [name for n in places for name in nodes[n].output if name and name in wanted]
    declared = {value.name: value for value in model.graph.output}
    part: Any = onnx.ModelProto()
    part.CopyFrom(model)
    del part.graph.node[:], part.graph.output[:], part.graph.value_info[:]
    part.graph.node.extend(kept)
    for name in outputs:
        unknown = onnx.ValueInfoProto(name=name)
        part.graph.output.append(declared.get(name, unknown))
    for value in free_inputs(part):
        dimensions = value.type.tensor_type.shape
        dimensions.Clear()
        for extent in shapes[value.name]:
            dimensions.dim.add(dim_value=extent)
    used = {value.name for value in part.graph.output}.union(*map(names_read, kept))
    weights = [w for w in part.graph.initializer if w.name in used]
    del part.graph.initializer[:]
    part.graph.initializer.extend(weights)
    return part


def names_read(node: Any) -> set[str]:
    """The values that an operator reads, also those that only graphs inside it read."""
    names: set[str] = {name for name in node.input if name}
    for graph in _graphs(node):
        read = {value.name for value in graph.output}.union(*map(names_read, graph.node))
        own = (*graph.input, *graph.initializer)
        made = {name for inner in graph.node for name in inner.output}
        names |= read - made - {value.name for value in own}
    return names


def graphs_inside(graph: Any) -> Iterator[Any]:
    """Yield the graphs that a graph's operators hold, and those inside them."""
    for node in graph.node:
        for inner in _graphs(node):
            yield inner
            yield from graphs_inside(inner)


def _graphs(node: Any) -> Iterator[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
