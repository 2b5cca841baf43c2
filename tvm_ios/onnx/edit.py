"""Small edits of an onnx_ir graph and queries about nodes, shared by simplification steps."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import GraphError

_log = logging.getLogger(__name__)


def bypass(graph: Any, node: Any, source: Any) -> bool:
    """Let all readers of a node's only output read another value, and remove the node.

    Return False and change nothing if both values are named by the graph's interface.
    """
    target = node.outputs[0]
    needed = source.is_graph_input() or source.is_graph_output() or source.is_initializer()
    if target.is_graph_output() and needed:
        return False
    redirect(graph, target, source)
    graph.remove(node, safe=True)
    return True


def redirect(graph: Any, target: Any, source: Any) -> None:
    """Let readers of a value, including the graph's outputs, read another node's value."""
    if target.is_graph_output():
        source.name, target.name = target.name, None
        graph.outputs[list(graph.outputs).index(target)] = source
    ir.convenience.replace_all_uses_with(target, source)


def is_of_onnx(node: Any) -> bool:
    """Return whether a node, of ``onnx_ir`` or of a file, is one of ONNX's own operators."""
    return node.domain in ("", "ai.onnx")


def opset_of(model: Any) -> int:
    """Return the version of ONNX's operators that an ``onnx.ModelProto`` states, by default 1."""
    return max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1)


def node_text(node: Any) -> str:
    """Return how messages call a node: operator type, name if it has one, and first output.

    The node may be of ``onnx_ir`` or of a file.
    """
    name = f"node {node.name!r}, " if node.name else ""
    names = (v.name for v in node.outputs) if isinstance(node, ir.Node) else iter(node.output)
    return f"operator {node.op_type} ({name}output {next(names, '')!r})"


def constant(value: Any) -> Array | None:
    """Return the array of a constant value, or None if the value is not constant.

    Raise GraphError if the data do not fit the type and shape.
    """
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    try:
        return value.const_value.numpy()
    except ValueError as error:
        raise GraphError(f"the weight {value.name!r} is damaged: {error}") from error


def new_constant(graph: Any, name: str, array: Array) -> Any:
    """Add an initializer and return its value. A number is appended to a name in use."""
    free, number = name, 0
    while free in graph.initializers:
        number += 1
        free = f"{name}_{number}"
    tensor = ir.tensor(np.array(array, order="C"), name=free)
    value = ir.Value(
        name=free, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor
    )
    graph.register_initializer(value)
    return value


def free_weights_from_inputs(graph: Any) -> None:
    """Remove weights from the graph's inputs, among which old files list them."""
    inputs = [value for value in graph.inputs if value.name not in graph.initializers]
    if len(inputs) != len(graph.inputs):
        graph.inputs[:] = inputs


@cache
def warn_once(sentence: str) -> None:
    """Log a warning. Repetitions of the same sentence are dropped."""
    _log.warning(sentence)
