"""Cut off the beginning of an ONNX model, whose outputs are the values that the rest reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx

from tvm_ios.onnx.inputs import free_inputs

#: Operators whose results are constant as soon as shapes are static.
_SHAPES = ("Shape", "Size")


def computed_operators(model: Any) -> list[int]:
    """Return the positions of the operators whose results depend on the inputs' values."""
    varies = {value.name for value in free_inputs(model)}
    places: list[int] = []
    for place, node in enumerate(model.graph.node):
        if node.op_type not in _SHAPES and not varies.isdisjoint(names_read(node)):
            varies.update(filter(None, node.output))
            places.append(place)
    return places


def cut_after(model: Any, place: int, shapes: Mapping[str, Sequence[int]]) -> Any:
    """Return a model of the operators up to and including position ``place``, with static inputs.

    The operators must stand in topological order. ``shapes`` has the shape of each input. The
    outputs are the kept values that depend on the inputs' values and that the rest of the model
    reads or returns. Inputs that nothing reads stay.
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
    """Return the names of the values that an operator and the graphs inside it read."""
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
