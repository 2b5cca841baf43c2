"""Fold splits of constants, which the library that folds constants leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.steps import Steps


def split_constants(graph: Any, opset: int) -> bool:
    """Replace the results of splits of constants by constants; return whether there were any."""
    splits = [node for node in graph if node.op_type == "Split" and node.domain == ""]
    return sum(_split(Steps(graph, node, opset)) for node in splits) > 0


def _split(steps: Steps) -> bool:
    node, count = steps.node, len(steps.node.outputs)
    whole, stated = (*map(constant, node.inputs), None)[:2]
    sizes = node.attributes.get_ints("split", None) if stated is None else stated.tolist()
    if whole is None or (len(node.inputs) > 1 and node.inputs[1] is not None and stated is None):
        return False
    axis = node.attributes.get_int("axis", 0)
    # Of equal parts the last one may be smaller.
    size = -(-whole.shape[axis] // count)
    borders = size * np.arange(1, count) if sizes is None else np.cumsum(sizes)[:-1]
    steps.stand_for(*map(steps.number, np.split(whole, borders, axis)))
    return True
