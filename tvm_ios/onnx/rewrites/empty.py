"""Replace tensors without elements by constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edit import constant, is_of_onnx, new_constant
from tvm_ios.onnx.rewrites.steps import Steps

#: Results of reductions over nothing; infinities stand for the extremes of integer types.
_IDENTITIES = {
    "ReduceL1": 0,
    "ReduceL2": 0,
    "ReduceLogSum": -math.inf,
    "ReduceLogSumExp": -math.inf,
    "ReduceMax": -math.inf,
    "ReduceMean": math.nan,
    "ReduceMin": math.inf,
    "ReduceProd": 1,
    "ReduceSum": 0,
    "ReduceSumSquare": 0,
}


_SCATTERING = ("Scatter", "ScatterElements", "ScatterND")


def make_empty_constant(graph: Any) -> bool:
    """Replace inputs and results without elements by constants; return whether there were any.

    Readers of only constants can then be folded, for ONNX defines reductions and products over
    nothing.
    """
    results = [value for node in graph for value in node.outputs]
    empty = [(v, array) for v in (*graph.inputs, *results) if (array := _empty(v)) is not None]
    read = [(value, array) for value, array in empty if value.uses()]
    for value, array in read:
        ir.convenience.replace_all_uses_with(value, new_constant(graph, f"{value.name}.0", array))
    return bool(read)


def drop_empty(graph: Any, node: Any, opset: int) -> None:
    """Rewrite an operator that reads or makes empty tensors without them, if possible."""
    if not is_of_onnx(node) or not node.outputs:
        return
    steps = Steps(graph, node, opset)
    empty = [_empty(value) for value in node.outputs]
    if node.op_type != "Identity" and all(array is not None for array in empty):
        steps.stand_for(*(steps.number(array) for array in empty if array is not None))
    elif node.op_type == "Split" and any(array is not None for array in empty):
        _split(steps, empty)
    elif node.op_type in _IDENTITIES and _is_empty_constant(node.inputs[0]):
        _reduce(steps, _IDENTITIES[node.op_type])
    elif node.op_type == "Concat":
        kept = [value for value in node.inputs if not _is_empty_constant(value)]
        if len(kept) < len(node.inputs):
            axis = node.attributes["axis"].value
            steps.stand_for(steps.op("Concat", *kept, like=node.outputs[0], axis=axis))
    elif node.op_type in _SCATTERING and _is_empty_constant(node.inputs[1]):
        steps.stand_for(node.inputs[0])


def _split(steps: Steps, empty: list[Array | None]) -> None:
    """Slice out only the parts that have elements."""
    node = steps.node
    axis = node.attributes.get_int("axis", 0)
    kept = [value for value, array in zip(node.outputs, empty, strict=True) if array is None]
    parts = iter(steps.split(node.inputs[0], [value.shape[axis] for value in kept], axis))
    steps.stand_for(*(next(parts) if array is None else steps.number(array) for array in empty))


def _reduce(steps: Steps, identity: float) -> None:
    """Replace a reduction of an empty tensor by a constant of the reduction's identity."""
    result = steps.node.outputs[0]
    if result.shape is None or not result.shape.is_static():
        return
    kind = np.dtype(result.dtype.numpy())
    if kind.kind in "biu" and math.isinf(identity):
        least, greatest = (0, 1) if kind.kind == "b" else (np.iinfo(kind).min, np.iinfo(kind).max)
        identity = least if identity < 0 else greatest
    steps.stand_for(steps.number(np.full(tuple(result.shape), identity, kind)))


def _empty(value: Any) -> Array | None:
    """Return the array of a value without elements, or None for any other value."""
    if value.shape is None or value.dtype is None or not value.shape.is_static():
        return None
    shape = tuple(value.shape)
    return None if math.prod(shape) else np.zeros(shape, value.dtype.numpy())


def _is_empty_constant(value: Any) -> bool:
    array = constant(value)
    return array is not None and not array.size
