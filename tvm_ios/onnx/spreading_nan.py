"""Inputs with NaN that spreads through convolutions and dense layers to all that reads it.

An operator that drops NaN turns it into a number, which all others pass on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edge_inputs import ELEMENT_WISE, LOOK_AT_NAN, MOVE_FIRST

#: Operators that spread one NaN to several elements.
_SPREAD = {
    *("AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "Gemm", "GlobalAveragePool"),
    *("GroupNormalization", "InstanceNormalization", "LayerNormalization", "LogSoftmax", "MatMul"),
    *("ReduceL1", "ReduceL2", "ReduceMean", "ReduceSum", "ReduceSumSquare", "Softmax"),
}
#: Extremes for which ONNX Runtime either keeps or drops NaN, so that nothing can be compared.
_LARGEST = {"GlobalMaxPool", "MaxPool", "ReduceMax", "ReduceMin"}
_ALONE = {
    *("Celu", "DepthToSpace", "Elu", "Gelu", "HardSigmoid", "HardSwish", "Mish", "PRelu", "Pad"),
    *("Selu", "SpaceToDepth"),
}
_PASS = {"Concat"} | MOVE_FIRST | _SPREAD | _LARGEST | _ALONE | ELEMENT_WISE
_DROP = (LOOK_AT_NAN & ELEMENT_WISE) | _LARGEST | _ALONE
_FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}


def spreading_nan(model: Any, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
    """Return inputs with NaN in two places each, where all readers pass NaN on.

    ``inputs`` are random inputs of the simplified model's program. Return None if no operator that
    may drop NaN comes after one that spreads it.
    """
    drawn = dict(inputs)
    for name, array in inputs.items():
        if array.dtype.kind == "f" and array.size and _reaches(model.graph, name):
            drawn[name] = array.copy()
            drawn[name].reshape(-1)[[0, array.size // 2]] = np.nan
    changed = any(drawn[name] is not array for name, array in inputs.items())
    return drawn if changed else None


def _reaches(graph: Any, name: str) -> bool:
    """Return whether NaN of an input reaches an operator that may drop it, and decides nothing."""
    reached, spread, found = {name}, set[str](), False
    for node in graph.node:
        read = reached.intersection(node.input)
        if not read:
            continue
        if not _passes(node, read):
            return False
        found |= node.op_type in _DROP and not spread.isdisjoint(node.input)
        reached.update(node.output)
        if node.op_type in _SPREAD or not spread.isdisjoint(node.input):
            spread.update(node.output)
    return found


def _passes(node: Any, read: set[str]) -> bool:
    kind = node.op_type
    if kind == "Cast":
        return any(a.name == "to" and a.i in _FLOATS for a in node.attribute)
    if kind == "Where":
        return node.input[0] not in read
    if kind in MOVE_FIRST and not read.isdisjoint(node.input[1:]):
        return False
    return kind in _PASS and (kind == "Split" or len(node.output) == 1)
