"""Rewrite attributes and inputs of ONNX operators that TVM's Relay importer misreads."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


def written_plainly(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy with both bounds given to each ``Clip`` and axes of reductions as attributes.

    The copy is for TVM's importer alone. ONNX takes the axes as an input since opset 13
    (``ReduceSum``) or 18, of which the importer reads the first axis or none. Modes of
    ``GridSample`` get their names from before opset 20, and casts lose ``saturate``, which only
    matters for types of eight bits.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    for number, node in enumerate(graph.node):
        if node.op_type == "Clip":
            _give_both_bounds(graph, node, initializers, f"clip{number}.limit")
        elif node.op_type.startswith("Reduce") and len(node.input) == 2:
            _give_axes_as_attribute(node, initializers.get(node.input[1]))
        elif node.op_type == "GridSample":
            _name_mode_as_before(node)
        elif node.op_type in ("Cast", "CastLike"):
            _drop_attribute(node, "saturate")
    return copy


def _give_both_bounds(graph: Any, node: Any, initializers: dict[str, Any], name: str) -> None:
    """Give a Clip both bounds; if they cross, use the upper one for both.

    The importer ignores a single bound, and takes the lower one of two that cross.
    """
    bounds = [*node.input[1:], "", ""][:2]
    stated = [initializers[bound] for bound in bounds if bound in initializers]
    if len(stated) == 2 and np.any(np.greater(*map(numpy_helper.to_array, stated))):
        node.input[1] = bounds[1]
        return
    if len(stated) != 1 or sum(map(bool, bounds)) != 1:
        return
    bound = numpy_helper.to_array(stated[0])
    limits = np.finfo(bound.dtype) if bound.dtype.kind == "f" else np.iinfo(bound.dtype)
    for place, limit in enumerate((limits.min, limits.max)):
        if not bounds[place]:
            bounds[place] = name
            graph.initializer.append(
                numpy_helper.from_array(np.array(limit, bound.dtype), bounds[place])
            )
    node.input[1:] = bounds


def _name_mode_as_before(node: Any) -> None:
    names = {b"linear": b"bilinear", b"cubic": b"bicubic"}
    for attribute in node.attribute:
        if attribute.name == "mode":
            attribute.s = names.get(attribute.s, attribute.s)


def _drop_attribute(node: Any, name: str) -> None:
    for attribute in [a for a in node.attribute if a.name == name]:
        node.attribute.remove(attribute)


def _give_axes_as_attribute(node: Any, tensor: onnx.TensorProto | None) -> None:
    if tensor is None:
        return
    axes = numpy_helper.to_array(tensor)
    nothing = any(a.name == "noop_with_empty_axes" and a.i for a in node.attribute)
    if not axes.size and nothing:
        return
    del node.input[1:]
    if axes.size:
        node.attribute.append(helper.make_attribute("axes", axes.tolist()))
