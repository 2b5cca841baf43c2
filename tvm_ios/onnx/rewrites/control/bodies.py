"""Copy the graphs that operators hold into the graph in which the operator stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import constant, is_of_onnx, new_constant, node_text, redirect

#: A larger model is refused: every search and every compiler would take minutes for it.
LARGEST = 20_000


@dataclass
class Body:
    """A graph that an operator holds, which can be copied any number of times.

    Copies are inserted into ``graph``, before ``node``. ``body`` may read values of the graph
    around it.
    """

    graph: Any
    node: Any
    body: Any
    #: Its constants, which all copies share, and the copies of what reads no input of the body.
    _constants: dict[Any, Any] = field(default_factory=dict[Any, Any])

    def write(self, inputs: Sequence[Any], name: str) -> list[Any]:
        """Insert a copy of the body that reads these inputs; return its outputs' values.

        Names in the copy begin with ``name``. Shapes are left out, for they may differ from copy to
        copy. The values may also be inputs, or values of the graph around. Raise GraphError if the
        graph becomes too large.
        """
        if len(self.graph) + len(self.body) > LARGEST:
            raise GraphError(
                f"{node_text(self.node)} makes the model more than {LARGEST} operators large when "
                "it is unrolled: export the model for fewer steps"
            )
        values = {**self._shared(), **dict(zip(self.body.inputs, inputs, strict=True))}
        for inner in self.body:
            self.graph.insert_before(self.node, _copied(inner, values, f"{name}."))
        return [values.get(value, value) for value in self.body.outputs]

    def _shared(self) -> Mapping[Any, Any]:
        if not self._constants:
            for value in self.body.initializers.values():
                array: Any = constant(value)
                self._constants[value] = new_constant(self.graph, value.name, array)
        return self._constants


def replace_nodes(graph: Any, results_of: Callable[[Any], Sequence[Any] | None]) -> bool:
    """Replace ONNX operators by other values, and return whether any was replaced.

    ``results_of`` returns the values that replace a node's outputs, or None if the node stays.
    """
    replaced = False
    for node in list(graph):
        if is_of_onnx(node) and (results := results_of(node)) is not None:
            _stand_for(graph, node, results)
            replaced = True
    return replaced


def _stand_for(graph: Any, node: Any, results: Sequence[Any]) -> None:
    """Let readers of a node's results read these values instead, and remove the node."""
    for number, (old, new) in enumerate(zip(node.outputs, results, strict=True)):
        if not old.name:
            continue
        # A result may be an input of the graph, or stand for several outputs, which have names.
        passed: Any = ir.node("Identity", [new], name=f"{node.name}.result{number}")
        (result,) = passed.outputs
        result.name, result.type = f"{old.name}.result", old.type
        result.shape = old.shape if old.shape is not None and old.shape.is_static() else None
        graph.insert_before(node, passed)
        redirect(graph, old, result)
    graph.remove(node, safe=True)


def values_read(node: Any) -> Iterator[Any]:
    """Yield the values that a node reads, also in the graphs that it holds."""
    yield from (value for value in node.inputs if value is not None)
    for attribute in node.attributes.values():
        if attribute.type != ir.AttributeType.GRAPH:
            continue
        graph = attribute.as_graph()
        made = {*graph.inputs, *graph.initializers.values()}
        made |= {value for inner in graph for value in inner.outputs}
        read = [*graph.outputs, *(value for inner in graph for value in values_read(inner))]
        yield from (value for value in read if value not in made)


def _copied(node: Any, values: dict[Any, Any], prefix: str) -> Any:
    """Return a copy of a node with its values mapped. Its results are added to ``values``."""
    attributes: list[Any] = [
        ir.AttrGraph(attribute.name, _copied_graph(attribute.as_graph(), values, prefix))
        if attribute.type == ir.AttributeType.GRAPH
        else attribute
        for attribute in node.attributes.values()
    ]
    copy: Any = ir.Node(
        node.domain,
        node.op_type,
        [None if value is None else values.get(value, value) for value in node.inputs],
        attributes,
        num_outputs=len(node.outputs),
        name=f"{prefix}{node.name or node.op_type}",
    )
    for old, new in zip(node.outputs, copy.outputs, strict=True):
        # An output without a name is one that nobody wants.
        new.name = old.name and f"{prefix}{old.name}"
        new.type, new.const_value = old.type, old.const_value
        values[old] = new
    return copy


def _copied_graph(graph: Any, outer: Mapping[Any, Any], prefix: str) -> Any:
    values = dict(outer)
    for value in (*graph.inputs, *graph.initializers.values()):
        values[value] = ir.Value(
            name=f"{prefix}{value.name}", type=value.type, const_value=value.const_value
        )
        if value.const_value is not None:
            values[value].shape = value.shape
    nodes = [_copied(node, values, prefix) for node in graph]
    return ir.Graph(
        [values[value] for value in graph.inputs],
        [values.get(value, value) for value in graph.outputs],
        nodes=nodes,
        initializers=[values[value] for value in graph.initializers.values()],
        opset_imports=graph.opset_imports,
        name=graph.name,
    )
