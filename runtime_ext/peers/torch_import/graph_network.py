"""Write a graph of operators as a torch module: needs neither TVM nor ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx

from runtime_ext.peers.torch_import.canonical_kinds import CANONICAL
from runtime_ext.peers.torch_import.writer import UnsupportedOperator, Writer
from tvm_ios.files.array_files import Array
from tvm_ios.graph.op_graph import OpGraph


@dataclass(frozen=True, eq=False)
class _Value:
    """A tensor in the form that functions of :mod:`canonical_kinds` take."""

    shape: tuple[int, ...]
    content: Array | None


class _GraphWriter(Writer):
    def array(self, value: Any) -> Array:
        if value.content is None:
            raise UnsupportedOperator("an input that has to be constant is not")
        return value.content


def graph_network(graph: OpGraph, constants: Mapping[int, Array]) -> fx.GraphModule:
    """Return a module of the inputs of a graph of operators, in order, that returns all outputs.

    ``constants`` has the content of each constant tensor. Raise UnsupportedOperator, which names
    the operator, if one is not known here.
    """
    writer = _GraphWriter()
    values = [_Value(t.shape, constants.get(i)) for i, t in enumerate(graph.tensors)]
    for tensor in graph.inputs:
        writer.set(values[tensor], writer.graph.placeholder(f"input_{len(writer.graph.nodes)}"))
    for op in graph.operators:
        try:
            write = CANONICAL[op.kind]
            written = write(writer, op.attrs, *(values[t] for t in op.inputs))
        except (KeyError, UnsupportedOperator, TypeError) as error:
            raise UnsupportedOperator(
                f"the operator {op.name!r} of kind {op.kind} has no torch function here: {error}"
            ) from error
        for tensor, node in zip(
            op.outputs, written if isinstance(written, list) else [written], strict=True
        ):
            writer.set(values[tensor], node)
    writer.graph.output(tuple(writer.node(values[tensor]) for tensor in graph.outputs))
    return writer.module([graph.tensors[tensor].name for tensor in graph.inputs])
