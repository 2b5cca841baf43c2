"""A Gather that takes one known index is a slice, as exporters write ``x[:, i]``."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx_edit import bypass, constant, new_constant


def slice_of_one_index(graph: Any, node: Any, opset: int) -> None:
    """Replace the node, if it is one, by a slice, which units read without a copy."""
    index = constant(node.inputs[1]) if node.op_type == "Gather" else None
    # Before version 10 the bounds of a slice were attributes.
    if index is None or index.size != 1 or index.ndim > 1 or opset < 10:
        return
    source, result = node.inputs[0], node.outputs[0]
    if source.shape is None or not source.shape.is_static() or constant(source) is not None:
        return
    axis = node.attributes.get_int("axis", 0) % len(source.shape)
    begin = int(index.item()) % source.shape[axis]
    bounds = [
        new_constant(graph, f"{result.name}.{label}", np.array([limit], np.int64))
        for label, limit in (("start", begin), ("end", begin + 1), ("axis", axis))
    ]
    part: Any = ir.node("Slice", [source, *bounds], name=node.name)
    taken = part.outputs[0]
    taken.name, taken.dtype = f"{result.name}.slice", result.dtype
    taken.shape = ir.Shape([1 if i == axis else e for i, e in enumerate(source.shape)])
    graph.insert_before(node, part)
    if index.ndim == 0:
        extents = [e for i, e in enumerate(source.shape) if i != axis]
        shape = new_constant(graph, f"{result.name}.shape", np.array(extents, np.int64))
        reshape: Any = ir.node("Reshape", [taken, shape], name=f"{node.name}.reshape")
        taken = reshape.outputs[0]
        taken.name, taken.dtype = f"{result.name}.reshape", result.dtype
        taken.shape = ir.Shape(extents)
        graph.insert_before(node, reshape)
    bypass(graph, node, taken)
