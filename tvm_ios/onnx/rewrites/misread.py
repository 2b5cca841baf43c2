"""Operators that TVM's importer reads wrongly, written as what it reads rightly."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.steps import Steps


def write_plainly(graph: Any, node: Any, opset: int) -> None:
    """Replace an ``EyeLike``, a ``OneHot``, or a ``Constant`` that is an output of the model."""
    steps = Steps(graph, node, opset)
    if node.op_type == "Constant":
        _output(steps)
    elif node.op_type == "EyeLike":
        _eye_like(steps)
    elif node.op_type == "OneHot":
        _one_hot(steps)


def _output(steps: Steps) -> None:
    """Folding leaves a node where the output is a constant: TVM's importer wants it otherwise."""
    tensor = ir.convenience.get_const_tensor(steps.node.outputs[0])
    if tensor is not None:
        steps.stand_for(steps.op("Identity", steps.number(tensor.numpy())))


def _eye_like(steps: Steps) -> None:
    """TVM's importer makes zeros of it."""
    source, node = steps.node.inputs[0], steps.node
    if source.shape is None or not source.shape.is_static() or node.outputs[0].dtype is None:
        return
    rows, columns = source.shape
    diagonal = np.eye(rows, columns, node.attributes.get_int("k", 0), node.outputs[0].dtype.numpy())
    steps.stand_for(steps.op("Identity", steps.number(diagonal)))


def _one_hot(steps: Steps) -> None:
    """TVM's importer makes doubles of it; indices may count from the end."""
    source, depth, values = steps.node.inputs
    extent, pair = constant(depth), constant(values)
    if extent is None or pair is None or source.shape is None:
        return
    rank = len(source.shape) + 1
    axis = steps.node.attributes.get_int("axis", -1) % rank
    places = np.arange(int(extent.item())).reshape([-1 if i == axis else 1 for i in range(rank)])
    indices = steps.op("Cast", source, to=int(ir.DataType.INT64))
    indices = steps.unsqueezed(indices, axis)
    counted = [steps.op("Equal", indices, steps.number(p)) for p in (places, places - places.size)]
    off, on = (steps.number(pair[i]) for i in range(2))
    steps.stand_for(steps.op("Where", steps.op("Or", *counted), on, off))
