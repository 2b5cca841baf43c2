"""Rewrite operators whose inputs give the size of the result by its declared shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.steps import Steps, static_shape

#: The result of these has the shape of what they read, where that is one shape and single numbers.
_ELEMENTWISE = frozenset({"Add", "Cast", "Cos", "Div", "Mul", "Neg", "Sin", "Sub"})


def _constant_of_shape(steps: Steps) -> None:
    """Write ``ConstantOfShape`` of a computed shape as a constant of the declared shape."""
    (shape,), result = steps.node.inputs, static_shape(steps.node.outputs[0])
    if constant(shape) is not None or result is None:
        return
    value = steps.node.attributes.get("value")
    number = np.zeros(1, np.float32) if value is None else value.value.numpy()
    steps.stand_for(steps.number(np.full(result, number[0])))


def _window(steps: Steps) -> None:
    """Write a window function of a computed length as a constant of the declared length."""
    extents = static_shape(steps.node.outputs[0])
    if extents is not None:
        steps.stand_for(steps.number(_evaluated(steps.node, steps.opset, [np.array(extents[0])])))


def _mel_weights(steps: Steps) -> None:
    """Write ``MelWeightMatrix`` as a constant with as many bins as the result has columns."""
    extents = static_shape(steps.node.outputs[0])
    _, *others = (constant(value) for value in steps.node.inputs)
    arrays = [array for array in others if array is not None]
    if extents is not None and len(arrays) == len(others):
        inputs = [np.array(extents[1]), *arrays]
        steps.stand_for(steps.number(_evaluated(steps.node, steps.opset, inputs)))


def _range(steps: Steps) -> None:
    """Write a ``Range`` with computed bounds with the declared length."""
    start, limit, delta = steps.node.inputs
    length = _length(steps.graph, steps.node.outputs[0])
    if all(constant(value) is not None for value in (start, limit, delta)) or length is None:
        return
    if start.dtype is None:
        return
    places = steps.number(np.arange(length).astype(start.dtype.numpy()))
    steps.stand_for(steps.op("Add", start, steps.op("Mul", places, delta)))


def _length(graph: Any, value: Any) -> int | None:
    """Return the length of a vector, from its shape or that of element-wise results of it."""
    same = {value}
    for node in graph:
        others = set(node.inputs) - same
        joins = node.op_type in _ELEMENTWISE and len(others) < len(set(node.inputs))
        if joins and all(static_shape(other) == [] for other in others):
            same.update(node.outputs)
    shapes = [shape for member in same if (shape := static_shape(member)) is not None]
    return shapes[0][0] if shapes and len(shapes[0]) == 1 else None


def _evaluated(node: Any, opset: int, inputs: list[Array]) -> Array:
    """Return the result of an operator on these inputs by ``onnx.reference``."""
    proto = ir.serde.serialize_node(node)
    (output,) = proto.output
    names = [f"input{place}" for place in range(len(inputs))]
    del proto.input[:]
    proto.input.extend(names)
    values = [onnx.ValueInfoProto(name=name) for name in (*names, output)]
    graph = helper.make_graph([proto], "one", values[:-1], values[-1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    reference: Any = ReferenceEvaluator(model)
    return reference.run(None, dict(zip(names, inputs, strict=True)))[0]


DECLARED: Mapping[str, Callable[[Steps], None]] = {
    "BlackmanWindow": _window,
    "ConstantOfShape": _constant_of_shape,
    "HammingWindow": _window,
    "HannWindow": _window,
    "MelWeightMatrix": _mel_weights,
    "Range": _range,
}
