"""How tensors lie in memory: images between units with their channels innermost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

from runtime_ext.units.values import NHWC
from tvm_ios.graph.elements import Tensor
from tvm_ios.graph.op_graph import OpGraph

#: The layout of a tensor that lies as the model has it.
AS_IS = ""


def tensor_layouts(graph: OpGraph, functions: Sequence[Any]) -> tuple[str, ...]:
    """For each tensor of a graph of units its physical layout.

    Vectors along the channels serve convolutions of any kernel and stride, depthwise ones,
    pools and element-wise operators alike. What a matrix product makes or reads is no image
    (attention has the axes batch, head, token and feature). Inputs and outputs of the graph stay
    as the model has them.

    Parameters
    ----------
    graph
        A graph of units.
    functions
        The Relax function of each unit.
    """
    as_is = {*graph.inputs, *graph.outputs}
    for op, function in zip(graph.operators, functions, strict=True):
        if _has_matmul(function):
            as_is |= {*op.inputs, *op.outputs}
    return tuple(
        NHWC if _is_image(t) and i not in as_is else AS_IS for i, t in enumerate(graph.tensors)
    )


def _is_image(tensor: Tensor) -> bool:
    return len(tensor.shape) == 4 and tensor.dtype == "float32" and not tensor.constant


def _has_matmul(function: Any) -> bool:
    return any(
        isinstance(binding.value, relax.Call) and binding.value.op == _MATMUL
        for block in function.body.blocks
        for binding in block.bindings
    )


_MATMUL: Any = tvm.ir.Op.get("relax.matmul")
