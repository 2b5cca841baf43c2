"""Bring matrix products with a bias to one spelling of ``Gemm``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.edit import bypass, constant, new_constant

#: A constant, the number of columns or the transposition that it gets, and its factor.
_Factored = tuple[Any, int, float]


def canonical_gemms(graph: Any) -> None:
    """Rewrite ``Gemm`` with a constant weight: no transposes, no factors, a bias of shape (N,)."""
    factored: dict[_Factored, Any] = {}
    for node in list(graph):
        _canonical(graph, node, factored)


def matmul_bias_to_gemm(graph: Any) -> None:
    """Fuse a matrix product and the addition of a constant row into one Gemm."""
    for add in list(graph):
        if add.op_type != "Add" or add.inputs[0] is None:
            continue
        for product, row in (tuple(add.inputs), tuple(reversed(add.inputs))):
            matmul, bias = product.producer(), constant(row)
            if matmul is None or matmul.op_type != "MatMul" or bias is None:
                continue
            weight = constant(matmul.inputs[1])
            shape = product.shape
            if weight is None or weight.ndim != 2 or shape is None or len(shape) != 2:
                continue
            if bias.ndim > 2 or bias.size != math.prod(bias.shape[-1:]) or bias.size != shape[1]:
                continue
            if len(product.uses()) != 1 or product.is_graph_output():
                continue
            row = new_constant(graph, f"{row.name}.bias", bias.reshape(-1))
            gemm = ir.node("Gemm", [*matmul.inputs, row], name=matmul.name)
            result = gemm.outputs[0]
            result.name, result.dtype = f"{product.name}.biased", add.outputs[0].dtype
            result.shape = add.outputs[0].shape
            graph.insert_before(add, gemm)
            bypass(graph, add, result)
            graph.remove(matmul, safe=True)
            break


def _canonical(graph: Any, node: Any, factored: dict[_Factored, Any]) -> None:
    """Rewrite one Gemm. ``factored`` caches the new constants, which many nodes may share."""
    if node.op_type == "Gemm" and node.attributes.get_float("beta", 1.0) == 0:
        # As in runtimes, with beta 0 the third input is ignored even if it holds NaN.
        node.resize_inputs(2)
        del node.attributes["beta"]
    weight = constant(node.inputs[1]) if node.op_type == "Gemm" else None
    attributes = node.attributes
    if weight is None or attributes.get_int("transA", 0):
        return
    transposed = attributes.get_int("transB", 0)
    bias = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    if len(node.inputs) > 2 and node.inputs[2] is not None:
        if bias is None or (bias.ndim == 2 and bias.shape[0] != 1):
            return
        beta = attributes.get_float("beta", 1.0)
        columns = weight.shape[0 if transposed else 1]
        canonical = np.broadcast_to(bias.reshape(-1), (columns,))
        if beta != 1.0 or bias.shape != canonical.shape:
            key = (node.inputs[2], columns, beta)
            if key not in factored:
                scaled = (canonical * np.float64(beta)).astype(bias.dtype)
                factored[key] = new_constant(graph, f"{node.inputs[2].name}.bias", scaled)
            node.replace_input_with(2, factored[key])
    alpha = attributes.get_float("alpha", 1.0)
    if alpha != 1.0 or transposed:
        key = (node.inputs[1], -transposed, alpha)
        if key not in factored:
            weight = weight.T if transposed else weight
            weight = weight if alpha == 1.0 else (weight * np.float64(alpha)).astype(weight.dtype)
            factored[key] = new_constant(graph, f"{node.inputs[1].name}.kn", weight)
        node.replace_input_with(1, factored[key])
    for name in ("alpha", "beta", "transA", "transB"):
        attributes.pop(name, None)
