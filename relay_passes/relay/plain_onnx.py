"""ONNX operators that TVM's importer for Relay reads wrongly, written as it reads them rightly."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


def written_plainly(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy with both bounds given to each ``Clip`` and constant axes as attributes of reductions.

    The copy is for TVM's importer alone: since opset 13 (``ReduceSum``) and 18 ONNX wants the axes
    as an input. Of such an input the importer reads the first axis only, or none. Modes of
    ``GridSample`` are called as before opset 20.
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
    return copy


def _give_both_bounds(graph: Any, node: Any, initializers: dict[str, Any], name: str) -> None:
    """The importer forgets a bound that stands alone."""
    bounds = [*node.input[1:], "", ""][:2]
    stated = [initializers[bound] for bound in bounds if bound in initializers]
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
