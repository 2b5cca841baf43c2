"""Expand operators into simpler ones, so that every spelling becomes the same graph."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.steps import Steps, static_shape


def expand_hard_activation(graph: Any, node: Any, opset: int) -> None:
    """Write ``HardSigmoid`` as ``clip(x * alpha + beta, 0, 1)``; ``HardSwish`` as x times that."""
    if node.op_type == "HardSigmoid":
        alpha = node.attributes.get_float("alpha", 0.2)
        beta = node.attributes.get_float("beta", 0.5)
    elif node.op_type == "HardSwish":
        alpha, beta = 1 / 6, 0.5
    else:
        return
    steps = Steps(graph, node, opset)
    source, result = node.inputs[0], node.outputs[0]
    # The factor and the shift can be folded into the convolution before.
    scaled = steps.op("Mul", source, steps.number(alpha), like=result)
    scaled = steps.op("Add", scaled, steps.number(beta), like=result)
    gate = steps.clipped(scaled, 0.0, 1.0)
    steps.stand_for(steps.op("Mul", gate, source) if node.op_type == "HardSwish" else gate)


def softmax_of_one_axis(graph: Any, node: Any, opset: int) -> None:
    """Reshape around a ``Softmax`` older than opset 13, which normalises several axes."""
    if node.op_type != "Softmax" or opset >= 13:
        return
    source = node.inputs[0]
    if source.shape is None or not source.shape.is_static():
        return
    extents = tuple(source.shape)
    axis = node.attributes.get_int("axis", 1) % len(extents)
    if len(extents) == 2 and axis == 1:
        return
    steps = Steps(graph, node, opset)
    flat = (math.prod(extents[:axis]), math.prod(extents[axis:]))
    value = steps.op("Softmax", steps.reshaped(source, extents, flat), axis=1)
    steps.stand_for(steps.reshaped(value, flat, extents))


def slice_of_one_index(graph: Any, node: Any, opset: int) -> None:
    """Write a ``Gather`` of one constant index as a slice, which units read without a copy."""
    index = constant(node.inputs[1]) if node.op_type == "Gather" else None
    # Before version 10 the bounds of a slice were attributes.
    if index is None or index.size != 1 or index.ndim > 1 or opset < 10:
        return
    source = node.inputs[0]
    if source.shape is None or not source.shape.is_static() or constant(source) is not None:
        return
    axis = node.attributes.get_int("axis", 0) % len(source.shape)
    begin = int(index.item()) % source.shape[axis]
    steps = Steps(graph, node, opset)
    bounds = (steps.number([limit]) for limit in (begin, begin + 1, axis))
    part = steps.op("Slice", source, *bounds)
    if index.ndim == 0:
        extents = [e for i, e in enumerate(source.shape) if i != axis]
        part = steps.op("Reshape", part, steps.number(extents))
    steps.stand_for(part)


_OF_TWO = {"Sum": "Add", "Max": "Max", "Min": "Min", "Mean": "Add"}


def binary_sums(graph: Any, node: Any, opset: int) -> None:
    """Write a ``Sum``, ``Max``, ``Min`` or ``Mean`` of many as a chain of binary operators."""
    if len(node.inputs) < (2 if node.op_type == "Sum" else 3) or node.op_type not in _OF_TWO:
        return
    steps, result = Steps(graph, node, opset), node.outputs[0]
    # Terms that are broadcast have partial sums of other shapes, which are inferred later.
    like = result if all(term.shape == result.shape for term in node.inputs) else None
    total: Any = node.inputs[0]
    for term in node.inputs[1:]:
        total = steps.op(_OF_TWO[node.op_type], total, term, like=like)
    if node.op_type == "Mean":
        total = steps.op("Div", total, steps.number(float(len(node.inputs))))
    steps.stand_for(total)


#: TVM's passes call themselves for each input of an operator.
_MOST_JOINED = 64


def concat_in_parts(graph: Any, node: Any, opset: int) -> None:
    """Write a ``Concat`` of very many inputs as a tree of smaller ones."""
    if node.op_type != "Concat" or len(node.inputs) <= _MOST_JOINED:
        return
    steps, parts = Steps(graph, node, opset), list(node.inputs)
    while len(parts) > 1:
        groups = [parts[at : at + _MOST_JOINED] for at in range(0, len(parts), _MOST_JOINED)]
        parts = [steps.op("Concat", *group, **steps.attributes) for group in groups]
    steps.stand_for(parts[0])


def scatter_of_rows(graph: Any, node: Any, opset: int) -> None:
    """Write a ``ScatterElements`` of whole rows as a ``ScatterND`` of a matrix, an index for each.

    Its indices are an ``Expand`` of a column, as of graphs whose edges' features are added up.
    """
    if node.op_type != "ScatterElements" or node.attributes.get_int("axis", 0) != 0:
        return
    data, indices, updates = node.inputs
    maker = indices.producer()
    column = maker.inputs[0] if maker is not None and maker.op_type == "Expand" else indices
    given = [static_shape(value) for value in (data, indices, updates, column)]
    rows, expanded, added, single = (tuple(extents or ()) for extents in given)
    if not rows or expanded != added or expanded[1:] != rows[1:]:
        return
    if single != (expanded[0], *(1 for _ in expanded[1:])):
        return
    steps = Steps(graph, node, opset)
    attributes = steps.attributes
    attributes.pop("axis", None)
    column = steps.cast(steps.reshaped(column, single, [expanded[0], 1]), ir.DataType.INT64)
    matrices = [
        steps.reshaped(value, extents, [extents[0], math.prod(extents[1:])])
        for value, extents in ((data, rows), (updates, added))
    ]
    result = steps.op("ScatterND", matrices[0], column, matrices[1], **attributes)
    steps.stand_for(steps.reshaped(result, [rows[0], math.prod(rows[1:])], rows))


#: The most elements of which one loop finds the largest, and the numbers in a vector and of parts
#: into which more are cut.
_MOST_REDUCED, _VECTOR, _PARTS = 4096, 16, 16


def extreme_in_parts(graph: Any, node: Any, opset: int) -> None:
    """Write a ``ReduceMax`` or ``ReduceMin`` of very many elements in two, the first of vectors."""
    if node.op_type not in ("ReduceMax", "ReduceMin"):
        return
    extents, result = (static_shape(value) for value in (node.inputs[0], node.outputs[0]))
    if extents is None or result is None or math.prod(result) > 1:
        return
    size = math.prod(extents)
    width = _divisor(size, _VECTOR)
    parts = _divisor(size // width, _PARTS)
    if size < _MOST_REDUCED or parts * width < _VECTOR:
        return
    steps = Steps(graph, node, opset)
    rows = steps.reshaped(node.inputs[0], extents, [parts, size // width // parts, width])
    vectors = steps.reduced(node.op_type, rows, [1], keepdims=0)
    steps.stand_for(
        steps.reshaped(steps.reduced(node.op_type, vectors, [0, 1], keepdims=0), [], result)
    )


def _divisor(number: int, most: int) -> int:
    """Return the largest divisor of a number up to another one."""
    return max(divisor for divisor in range(1, most + 1) if number % divisor == 0)
