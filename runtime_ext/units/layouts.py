"""Choose each tensor's layout: images between units have their channels innermost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

from runtime_ext.kernels.expression import is_element_wise
from runtime_ext.kernels.relax_function import operator_name
from runtime_ext.units.values import NHWC
from tvm_ios.graph.elements import Tensor
from tvm_ios.graph.op_graph import OpGraph

#: The layout of a tensor that is stored as the model has it.
AS_IS = ""


def tensor_layouts(graph: OpGraph, functions: Sequence[Any]) -> tuple[str, ...]:
    """Return for each tensor of a graph of units its layout, NHWC or as in the model.

    Vectors along the channels serve convolutions of any kernel and stride, depthwise ones and
    pools: NHWC are the tensors that these read and write, and those joined with them or computed
    from them element by element. All others stay as in the model: four axes alone are no image
    (attention has batch, head, token and feature). So do the results and operands of matrix
    products, and inputs and outputs of the graph.
    """
    names = [_operators(function) for function in functions]
    as_is = {*graph.inputs, *graph.outputs}
    images: set[int] = set()
    for op, operators in zip(graph.operators, names, strict=True):
        if _MATMUL in operators:
            as_is |= {*op.inputs, *op.outputs}
        elif operators & _OF_IMAGES:
            images |= {*op.inputs, *op.outputs}
    candidates = {i for i, tensor in enumerate(graph.tensors) if _is_image(tensor)} - as_is
    images &= candidates
    passing = [
        {*op.inputs, *op.outputs} & candidates
        for op, operators in zip(graph.operators, names, strict=True)
        if operators & _OF_CHANNELS or all(map(is_element_wise, operators - _OF_PIXELS))
    ]
    grows = True
    while grows:
        before = len(images)
        for tensors in (*passing, *reversed(passing)):
            if tensors & images:
                images |= tensors
        grows = len(images) > before
    return tuple(NHWC if i in images else AS_IS for i in range(len(graph.tensors)))


def _is_image(tensor: Tensor) -> bool:
    return len(tensor.shape) == 4 and tensor.dtype == "float32" and not tensor.constant


def _operators(function: Any) -> set[str]:
    values = (binding.value for block in function.body.blocks for binding in block.bindings)
    calls = (value for value in values if isinstance(value, relax.Call))
    return {operator_name(call) for call in calls if isinstance(call.op, tvm.ir.Op)}


_MATMUL = "relax.matmul"
#: Operators whose kernels have vectors along the channels.
_OF_IMAGES = {
    "relax.image.resize2d",
    "relax.nn.adaptive_avg_pool2d",
    "relax.nn.avg_pool2d",
    "relax.nn.avg_pool3d",
    "relax.nn.conv2d",
    "relax.nn.conv2d_transpose",
    "relax.nn.max_pool2d",
}
#: Operators that join and split tensors, also before a channel shuffle, and operators that move
#: images; all in any layout.
_OF_CHANNELS = {"relax.concat", "relax.split"}
_OF_PIXELS = {"relax.nn.pad", "relax.strided_slice"}
