"""Fuse layer norms that an exporter spelled out (before opset 17 there was no operator)."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.edit import bypass, constant, new_constant

#: From here on there is the operator; a model of opset 13 or later means the same with this one.
OPSET = 17


def fuse_layer_norms(graph: Any) -> bool:
    """Replace ``(x - mean) / sqrt(mean((x - mean)**2) + epsilon) * scale + bias``.

    Means are over the last axes; scale and bias are constants of these extents or missing;
    intermediate results have no other reader. Return whether anything was replaced.
    """
    fused = [_fuse(graph, node) for node in list(graph) if node.op_type == "Sub"]
    return any(fused)


def _fuse(graph: Any, centre: Any) -> bool:
    """Fuse the layer norm that begins with the mean of this subtraction, if it is one."""
    source, centred = centre.inputs[0], centre.outputs[0]
    axes = _mean_axes(centre.inputs[1], source)
    readers = dict.fromkeys(use.node for use in centred.uses())
    squares = [node for node in readers if _is_square(node, centred)]
    quotients = [node for node in readers if node.op_type == "Div"]
    if axes is None or len(readers) != 2 or len(squares) != 1 or len(quotients) != 1:
        return False
    (divide,) = quotients
    if divide.inputs[0] is not centred or centred.is_graph_output():
        return False
    root = _maker(divide.inputs[1], "Sqrt")
    shifted = None if root is None else _maker(root.inputs[0], "Add")
    if root is None or shifted is None:
        return False
    variance, epsilon = shifted.inputs[0], constant(shifted.inputs[1])
    if epsilon is None or epsilon.size != 1:
        return False
    if _mean_axes(variance, squares[0].outputs[0]) != axes or len(variance.uses()) != 1:
        return False
    extents = tuple(source.shape[axis] for axis in axes)
    scale, last = _factor(divide, "Mul", extents)
    bias, last = _factor(last, "Add", extents)
    if scale is None:
        ones = np.ones(extents, source.dtype.numpy())
        scale = new_constant(graph, f"{divide.outputs[0].name}.scale", ones)
    inputs = [source, scale] if bias is None else [source, scale, bias]
    norm: Any = ir.node(
        "LayerNormalization",
        inputs,
        {"axis": axes[0] - len(source.shape), "epsilon": float(epsilon.item())},
        name=last.name,
    )
    normalised, result = norm.outputs[0], last.outputs[0]
    normalised.name, normalised.dtype, normalised.shape = (
        f"{result.name}.norm",
        result.dtype,
        result.shape,
    )
    graph.insert_before(last, norm)
    bypass(graph, last, normalised)
    return True


def _mean_axes(value: Any, source: Any) -> tuple[int, ...] | None:
    """Return the trailing axes over which a value is the mean of ``source``, ascending, or None."""
    node = _maker(value, "ReduceMean")
    if node is None or node.inputs[0] is not source or source.shape is None:
        return None
    rank = len(source.shape)
    axes = node.attributes.get_ints("axes", None)
    if axes is None and len(node.inputs) > 1:
        array = constant(node.inputs[1])
        axes = None if array is None else array.reshape(-1).tolist()
    if not axes or not node.attributes.get_int("keepdims", 1) or not source.shape.is_static():
        return None
    positive = tuple(sorted(int(axis) % rank for axis in axes))
    return positive if positive == tuple(range(positive[0], rank)) else None


def _is_square(node: Any, value: Any) -> bool:
    if node.op_type == "Pow":
        exponent = constant(node.inputs[1])
        return exponent is not None and exponent.size == 1 and float(exponent.item()) == 2.0
    return node.op_type == "Mul" and node.inputs[0] is value and node.inputs[1] is value


def _factor(node: Any, op_type: str, extents: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the constant that a value's only reader applies, and the reader; or None and node."""
    (value,) = node.outputs
    uses = list(value.uses())
    if len(uses) != 1 or value.is_graph_output() or uses[0].node.op_type != op_type:
        return None, node
    reader = uses[0].node
    other = reader.inputs[1 - uses[0].idx]
    array = constant(other)
    return (other, reader) if array is not None and array.shape == extents else (None, node)


def _maker(value: Any, op_type: str) -> Any:
    """Return the operator that makes a value with one reader, or None if it is of another type."""
    if value is None or value.producer() is None or value.is_graph_output():
        return None
    node = value.producer()
    return node if node.op_type == op_type and len(value.uses()) == 1 else None
