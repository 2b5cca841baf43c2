"""Rewrite ``Compress`` with a constant condition as a gather."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_ios.onnx.edit import constant, is_of_onnx
from tvm_ios.onnx.rewrites.steps import Steps


def gather_what_is_kept(graph: Any, node: Any, opset: int) -> None:
    """Write a ``Compress`` with a constant condition that keeps something as a ``Gather``."""
    if node.op_type != "Compress" or not is_of_onnx(node):
        return
    source, condition = node.inputs
    kept = constant(condition)
    if kept is None or not kept.any():
        return
    steps = Steps(graph, node, opset)
    places = steps.number([int(place) for place in np.flatnonzero(kept)])
    axis = node.attributes.get_int("axis", None)
    if axis is None:
        source, axis = steps.op("Reshape", source, steps.number([-1])), 0
    result = steps.op("Gather", source, places, axis=axis)
    result.dtype = node.outputs[0].dtype
    # The node's own shape may be unknown.
    steps.stand_for(result)
