"""Operators that are written out in simpler ones, so that every spelling becomes the same graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx_edit import bypass, new_constant


def expand_hard_activation(graph: Any, node: Any, opset: int) -> None:
    """``HardSigmoid`` as ``clip(x * alpha + beta, 0, 1)``; ``HardSwish`` as x times that."""
    if node.op_type == "HardSigmoid":
        alpha = node.attributes.get_float("alpha", 0.2)
        beta = node.attributes.get_float("beta", 0.5)
    elif node.op_type == "HardSwish":
        alpha, beta = 1 / 6, 0.5
    else:
        return
    source, result = node.inputs[0], node.outputs[0]
    dtype = result.dtype.numpy()

    def number(value: float) -> Any:
        return new_constant(graph, f"{result.name}.number", np.asarray(value, dtype))

    def step(kind: str, *inputs: Any, **attributes: Any) -> Any:
        name = f"{node.name or result.name}.{kind.lower()}"
        made = ir.node(kind, inputs, attributes, name=name)
        graph.insert_before(node, made)
        value: Any = made.outputs[0]
        value.name, value.shape, value.dtype = f"{name}.out", result.shape, result.dtype
        return value

    scaled = step("Add", step("Mul", source, number(alpha)), number(beta))
    if opset >= 11:
        gate = step("Clip", scaled, number(0.0), number(1.0))
    else:  # the limits were attributes
        gate = step("Clip", scaled, min=0.0, max=1.0)
    if node.op_type == "HardSwish":
        gate = step("Mul", gate, source)
        gate.name += ".gated"
    bypass(graph, node, gate)
