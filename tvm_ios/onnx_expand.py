"""Operators that are written out in simpler ones, so that every spelling becomes the same graph."""

from __future__ import annotations

import math
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


def softmax_of_one_axis(graph: Any, node: Any, opset: int) -> None:
    """Before opset 13 all axes from the given one on were one: say so by reshapes."""
    if node.op_type != "Softmax" or opset >= 13:
        return
    source, result = node.inputs[0], node.outputs[0]
    if source.shape is None or not source.shape.is_static():
        return
    extents = tuple(source.shape)
    axis = node.attributes.get_int("axis", 1) % len(extents)
    if len(extents) == 2 and axis == 1:
        return
    steps: list[Any] = []
    for kind, shape in (
        ("Reshape", (math.prod(extents[:axis]), math.prod(extents[axis:]))),
        ("Softmax", None),
        ("Reshape", extents),
    ):
        if shape is None:
            inputs, attributes, made = [source], {"axis": 1}, source.shape
        else:
            target = new_constant(graph, f"{result.name}.shape", np.array(shape, np.int64))
            inputs, attributes, made = [source, target], {}, ir.Shape(shape)
        step: Any = ir.node(kind, inputs, attributes, name=f"{node.name}.{len(steps)}")
        source = step.outputs[0]
        source.name = f"{result.name}.{len(steps)}"
        source.shape, source.dtype = made, result.dtype
        steps.append(step)
    graph.insert_before(node, steps)
    bypass(graph, node, source)
