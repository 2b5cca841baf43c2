"""Bring forms of models that runtimes tolerate to the one that all other modules read."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.cut import graphs_inside, names_read
from tvm_ios.onnx.edit import node_text
from tvm_ios.onnx.rewrites.legacy import is_legacy, modernise_legacy

#: Operators whose results depend on how many outputs they have, or that ONNX wants all outputs of.
_COUNT_OUTPUTS = frozenset(
    {
        *("BatchNormalization", "DynamicQuantizeLinear", "If", "Loop", "Scan", "SequenceMap"),
        *("Split", "TopK"),
    }
)


def normalised(model: Any) -> Any:
    """Return the model with operators in topological order, dense weights and named outputs.

    Models of opset 6 and older become ones of opset 7. The ``onnx.ModelProto`` is not changed, and
    returned itself if it is normal. Raise GraphError if the graph has a cycle, or an old operator
    has no form in opset 7.
    """
    graphs = [model.graph, *graphs_inside(model.graph)]
    if not is_legacy(model) and not any(map(_is_irregular, graphs)):
        return model
    work: Any = onnx.ModelProto()
    work.CopyFrom(model)
    for graph in (work.graph, *graphs_inside(work.graph)):
        _make_dense(graph)
        _drop_unnamed_outputs(graph)
        _sort(graph)
    if is_legacy(work):
        modernise_legacy(work)
    return work


def _is_irregular(graph: Any) -> bool:
    if graph.sparse_initializer or not _is_sorted(graph):
        return True
    return any(
        _has_unwanted_outputs(node) or any(a.HasField("sparse_tensor") for a in node.attribute)
        for node in graph.node
    )


def _has_unwanted_outputs(node: Any) -> bool:
    if node.op_type in _COUNT_OUTPUTS:
        return not node.output or not all(node.output)
    return not node.output or not node.output[-1]


def _is_sorted(graph: Any) -> bool:
    later = {name for node in graph.node for name in node.output}
    for node in graph.node:
        if not later.isdisjoint(names_read(node)):
            return False
        later.difference_update(node.output)
    return True


def _sort(graph: Any) -> None:
    """Move each operator behind those that it depends on, and keep the order otherwise."""
    if _is_sorted(graph):
        return
    makers = {name: node for node in graph.node for name in node.output if name}
    ordered: dict[int, Any] = {}
    for first in graph.node:
        stack, open_nodes = [first], set[int]()
        while stack:
            node = stack[-1]
            needed = (makers[name] for name in sorted(names_read(node)) if name in makers)
            missing = next((maker for maker in needed if id(maker) not in ordered), None)
            if missing is None:
                ordered[id(node)] = node
                stack.pop()
                continue
            open_nodes.add(id(node))
            if id(missing) in open_nodes:
                raise GraphError(
                    f"{node_text(node)} reads what is computed from its own result: "
                    "export the model again"
                )
            stack.append(missing)
    del graph.node[:]
    graph.node.extend(ordered.values())


def _drop_unnamed_outputs(graph: Any) -> None:
    """Remove trailing outputs without a name, and operators that have no others."""
    kept = [node for node in graph.node if any(node.output)]
    for node in kept:
        if node.op_type in _COUNT_OUTPUTS:
            first: str = next(name for name in node.output if name)
            node.output[:] = [name or f"{first}.{i}" for i, name in enumerate(node.output)]
        while not node.output[-1]:
            node.output.pop()
    if len(kept) < len(graph.node):
        del graph.node[:]
        graph.node.extend(kept)


def _make_dense(graph: Any) -> None:
    """Convert sparse initializers and constants to dense tensors."""
    graph.initializer.extend(map(_dense, graph.sparse_initializer))
    del graph.sparse_initializer[:]
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("sparse_tensor"):
                attribute.t.CopyFrom(_dense(attribute.sparse_tensor))
                attribute.ClearField("sparse_tensor")
                attribute.name, attribute.type = "value", onnx.AttributeProto.TENSOR


def _dense(sparse: Any) -> Any:
    values: Any = numpy_helper.to_array(sparse.values)
    places: Any = numpy_helper.to_array(sparse.indices)
    whole = np.zeros(list(sparse.dims), values.dtype)
    # A place is one number, or one an axis.
    if places.ndim == 1:
        whole.reshape(-1)[places] = values
    else:
        whole[tuple(places.T)] = values
    return numpy_helper.from_array(whole, sparse.values.name)
