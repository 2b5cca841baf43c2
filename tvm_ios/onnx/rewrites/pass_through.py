"""Remove operators that return their input unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_ios.onnx.edit import bypass, constant, is_of_onnx

#: An end of a slice from here on is behind every tensor.
_EVERYTHING = np.iinfo(np.int32).max
#: The attributes of a slice before opset 10.
_BOUNDS = ("starts", "ends")


def remove_if_always_nothing(graph: Any, node: Any, opset: int) -> None:
    """Remove an operator that returns its input unchanged, whatever the shape of the input.

    A Slice to a number and a Pad do nothing at some shapes and something at others.
    """
    if is_of_onnx(node) and node.op_type == "Slice":
        get = node.attributes.get_ints
        starts, ends = map(constant, node.inputs[1:3]) if opset >= 10 else map(get, _BOUNDS)
        if starts is None or ends is None or np.any(starts) or np.less(ends, _EVERYTHING).any():
            return
    elif is_of_onnx(node) and node.op_type == "Pad":
        return
    remove_if_nothing(graph, node, opset)


def remove_if_nothing(graph: Any, node: Any, opset: int) -> None:
    """Remove an operator that returns its input unchanged."""
    del opset
    source = node.inputs[0] if node.inputs else None
    if source is None or not is_of_onnx(node):
        return
    kind, result = node.op_type, node.outputs[0]
    same_shape = source.shape is not None and source.shape == result.shape
    if kind == "Dropout":
        training = constant(node.inputs[2]) if len(node.inputs) > 2 else None
        mask_is_used = len(node.outputs) > 1 and bool(node.outputs[1].uses())
        nothing = not mask_is_used and (training is None or not training.item())
    elif kind in ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand"):
        nothing = same_shape
    elif kind == "Slice":
        # Backward steps keep the shape, too.
        given = node.inputs[4] if len(node.inputs) > 4 else None
        steps = np.ones(1) if given is None else constant(given)
        nothing = same_shape and steps is not None and bool(np.all(steps > 0))
    elif kind in ("Concat", "Sum", "Max", "Min", "Mean"):
        nothing = len(node.inputs) == 1
    elif kind == "Cast":
        nothing = source.dtype == result.dtype
    elif kind == "Pad":
        pads = constant(node.inputs[1]) if len(node.inputs) > 1 else None
        pads = node.attributes.get_ints("pads", [1]) if pads is None else pads
        nothing = not np.any(pads)
    else:
        nothing = kind == "Identity"
    if nothing:
        bypass(graph, node, source)
