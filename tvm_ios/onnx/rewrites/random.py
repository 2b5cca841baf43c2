"""Operators whose results are random, where nothing depends on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_ios.onnx.edit import constant, is_of_onnx
from tvm_ios.onnx.rewrites.steps import Steps, static_shape

#: Operators that make other numbers in each run.
RANDOM = frozenset(
    {
        *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform"),
        "RandomUniformLike",
    }
)

#: Operators whose result is zeros where their first input is, or that only move it.
_PASSES = frozenset(
    {"Cast", "Expand", "Identity", "Mul", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)


def leave_out_random(graph: Any, node: Any, opset: int) -> None:
    """Write zeros in the place of random numbers that are all multiplied by a constant zero."""
    if node.op_type not in RANDOM or not is_of_onnx(node):
        return
    steps, (result,) = Steps(graph, node, opset), node.outputs
    shape = static_shape(result)
    if shape is not None and result.dtype is not None and _is_multiplied_by_zero(result):
        steps.stand_for(steps.number(np.zeros(shape, result.dtype.numpy())))


def _is_multiplied_by_zero(value: Any) -> bool:
    """Whether all that reads a value multiplies it by zero, sooner or later."""
    if value.is_graph_output():
        return False
    for node, place in value.uses():
        if node.op_type == "Mul" and is_of_onnx(node):
            factor = constant(node.inputs[1 - place])
            if factor is not None and not np.any(factor):
                continue
        elif place > 0:
            return False
        passes = node.op_type in _PASSES and is_of_onnx(node)
        if not passes or not _is_multiplied_by_zero(node.outputs[0]):
            return False
    return True
