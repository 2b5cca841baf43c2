"""Rewrite ``GroupNormalization``, whose shape ONNX may not infer, as ``InstanceNormalization``."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvm_ios.onnx.edit import opset_of

#: Since then each channel has a scale and a bias, not each group.
_OF_CHANNELS = 21


def write_group_norms_out(model: Any) -> Any:
    """Return the model with group norms written in operators whose shapes are inferred.

    The model is not changed. Group norms whose scale is computed stay.
    """
    opset = opset_of(model)
    weights = {tensor.name: tensor.data_type for tensor in model.graph.initializer}

    def is_chosen(node: Any) -> bool:
        is_group_norm = node.op_type == "GroupNormalization" and node.domain in ("", "ai.onnx")
        return is_group_norm and node.input[1] in weights

    if not any(map(is_chosen, model.graph.node)):
        return model
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    nodes: list[Any] = []
    for node in model.graph.node:
        if is_chosen(node):
            nodes += _written_out(changed.graph, node, weights[node.input[1]], opset)
        else:
            nodes.append(node)
    del changed.graph.node[:]
    changed.graph.node.extend(nodes)
    return changed


def _written_out(graph: Any, node: Any, dtype: int, opset: int) -> list[Any]:
    source, scale, bias = node.input
    (result,) = node.output
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    groups = attributes["num_groups"]
    nodes: list[Any] = []

    def const(array: Any) -> str:
        name = f"{result}.const{len(graph.initializer)}"
        graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def op(kind: str, *inputs: str, output: str = "", **more: Any) -> str:
        name = output or f"{result}.{kind.lower()}{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [name], **more))
        return name

    rows = op("Reshape", source, const(np.array([0, groups, -1])))
    of_groups = scale, bias
    if opset >= _OF_CHANNELS:
        number = helper.tensor_dtype_to_np_dtype(dtype)
        of_groups = const(np.ones(groups, number)), const(np.zeros(groups, number))
    epsilon = attributes.get("epsilon", 1e-5)
    rows = op("InstanceNormalization", rows, *of_groups, epsilon=epsilon)
    if opset >= _OF_CHANNELS:
        axis, ends = const(np.array([1])), (const(np.array([0])), const(np.array([-1])))
        rows = op("Reshape", rows, op("Concat", ends[0], op("Shape", scale), ends[1], axis=0))
        rows = op("Mul", rows, op("Unsqueeze", scale, axis))
        rows = op("Add", rows, op("Unsqueeze", bias, axis))
    op("Reshape", rows, op("Shape", source), output=result)
    return nodes
