"""Rewrite ONNX's quantised operators in exact floating-point arithmetic.

Rounding is half to even and saturates; sums of products of integers are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.quantised.dequantised import (
    PRODUCTS,
    know_scaled,
    move_scaled,
    product_of_scaled,
    requantised,
)
from tvm_ios.onnx.rewrites.quantised.integer_products import (
    add_int32,
    conv_integer,
    matmul_integer,
    qlinear_conv,
    qlinear_matmul,
)
from tvm_ios.onnx.rewrites.quantised.integers import (
    LIMITS,
    as_floats,
    centred,
    held,
    hold,
    is_number,
    know,
    limits_of,
    multiplied,
    rounded,
    with_axis,
    without_axes,
)
from tvm_ios.onnx.rewrites.quantised.onnxruntime import CONTRIB, CONTRIB_DOMAIN
from tvm_ios.onnx.rewrites.steps import Steps

#: Operators that choose among the elements of their first input, as the order of its type says.
_MOVES = frozenset(
    {
        "DepthToSpace",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "MaxPool",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    }
)

#: Those that do so with floats, too, whatever their order is multiplied by.
_SCALED_MOVES = _MOVES - {"Gather"} | {"Concat"}
_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_ROUNDING = ("Ceil", "Floor", "Round")


def write_quantised(graph: Any, node: Any, opset: int) -> None:
    """Write an operator of :data:`QUANTISED` in floats, and let data movement move floats.

    Raise GraphError if there is no other way to write it.
    """
    operators = QUANTISED.get(node.domain or "ai.onnx", {})
    if node.op_type in operators:
        operators[node.op_type](Steps(graph, node, opset))
    elif node.op_type == "Mul" and any(map(is_number, node.inputs)):
        _multiply(Steps(graph, node, opset))
    elif node.op_type in _SCALED_MOVES and move_scaled(Steps(graph, node, opset)):
        pass
    elif node.op_type == "Cast" and _converts_whole_numbers(node):
        know(node.outputs[0], node.inputs[0], None)
    elif node.op_type == "Add" and node.outputs[0].dtype == ir.DataType.INT32:
        add_int32(Steps(graph, node, opset))
    elif node.inputs and node.inputs[0] is not None and held(node.inputs[0]) is not None:
        steps = Steps(graph, node, opset)
        if node.op_type in _MOVES and len(node.outputs) == 1:
            _move(steps)
        elif node.op_type == "Concat":
            _concat(steps)
        elif node.op_type == "Cast" and node.attributes["to"].value == ir.DataType.FLOAT:
            steps.stand_for(as_floats(steps, node.inputs[0]))


def _converts_whole_numbers(node: Any) -> bool:
    """Return whether a Cast makes int32 of rounded floats, which hold the same numbers."""
    source = node.inputs[0]
    producer = source.producer()
    return (
        node.attributes["to"].value == ir.DataType.INT32
        and source.dtype == ir.DataType.FLOAT
        and producer is not None
        and producer.op_type in _ROUNDING
    )


def _quantize(steps: Steps) -> None:
    node = steps.node
    inputs: list[Any] = [*node.inputs, None]
    source, scale, zero_point = inputs[:3]
    stated = node.attributes.get_int("output_dtype", 0) or int(ir.DataType.UINT8)
    dtype = ir.DataType(stated) if zero_point is None else zero_point.dtype
    # After an operator that is not ONNX's, types are not inferred.
    if not {source.dtype, scale.dtype} <= {ir.DataType.FLOAT, None} or dtype not in LIMITS:
        return
    if node.attributes.get_int("precision", 0) not in (0, int(ir.DataType.FLOAT)):
        return
    scale, zero_point = (_along_axis(steps, value) for value in (scale, zero_point))
    limits = limits_of(zero_point, dtype)
    if limits is None:
        steps.stand_for(rounded(steps, steps.op("Div", source, scale), zero_point, dtype))
    else:
        values = requantised(steps, source, scale, limits)
        steps.stand_for(hold(steps, values, zero_point, dtype))


def _dequantize(steps: Steps) -> None:
    node = steps.node
    inputs: list[Any] = [*node.inputs, None]
    source, scale, zero_point = inputs[:3]
    dtype = ir.DataType(node.attributes.get_int("output_dtype", 0) or int(scale.dtype))
    exact = (*LIMITS, ir.DataType.INT32)
    if (constant(source) is None and source.dtype not in exact) or dtype not in _FLOATS:
        return
    scale, zero_point = (_along_axis(steps, value) for value in (scale, zero_point))
    integers, scale = centred(steps, source, zero_point), as_floats(steps, scale)
    result = multiplied(steps, integers, scale)
    array = constant(result)
    if array is not None:
        result = steps.number(array.astype(dtype.numpy()))
    elif dtype != ir.DataType.FLOAT:
        result = steps.op("Cast", result, to=int(dtype))
    result.dtype = dtype
    if dtype == ir.DataType.FLOAT:
        limits = limits_of(zero_point, source.dtype) if source.dtype in LIMITS else None
        know_scaled(result, integers, scale, limits or (-inf, inf))
    steps.stand_for(result)


def _along_axis(steps: Steps, value: Any) -> Any:
    """Return a scale or zero point broadcastable over the data: per tensor, axis or block."""
    if value is None or value.shape is None:
        return value
    extents = list(value.shape)
    if len(extents) == 0 or extents == [1]:
        return steps.reshaped(value, extents, [])
    data = steps.node.inputs[0].shape
    if data is None or not data.is_static():
        name = steps.node.name or steps.node.outputs[0].name
        raise GraphError(
            f"operator {name!r} ({steps.node.op_type}) has a scale for each channel of what has no "
            "known shape: export the model with fixed shapes"
        )
    axis = steps.node.attributes.get_int("axis", 1) % len(data)
    if len(extents) == 1:
        return steps.reshaped(
            value, extents, [extents[0] if i == axis else 1 for i in range(len(data))]
        )
    block = steps.node.attributes.get_int("block_size", 0)
    blocks = np.arange(data[axis], dtype=np.int64) // (block or -(-data[axis] // extents[axis]))
    array = constant(value)
    if array is not None:
        return steps.number(np.take(array, blocks, axis))
    gathered = steps.op("Gather", value, steps.number(blocks), axis=axis)
    gathered.dtype = value.dtype
    return gathered


def _dynamic_quantize(steps: Steps) -> None:
    """Write ``DynamicQuantizeLinear``: scale and zero point from the range, which includes 0."""
    (source,) = steps.node.inputs
    if source.dtype != ir.DataType.FLOAT:
        return
    zero, one, last = (steps.number(np.array([number], np.float32)) for number in (0, 1, 255))

    def of_all(kind: str) -> Any:
        return steps.op("Reshape", steps.op(kind, source, keepdims=1), steps.number([1]))

    most = steps.op("Max", of_all("ReduceMax"), zero)
    least = steps.op("Min", of_all("ReduceMin"), zero)
    span = steps.op("Sub", most, least)
    # Of zeros alone ONNX's scale is zero; ONNX Runtime's is one, by which zeros can be divided.
    some = steps.op("Greater", span, zero)
    scale = steps.op("Where", some, steps.op("Div", span, last), one)
    origin = steps.op("Sub", zero, steps.op("Div", least, scale))
    zero_point = rounded(steps, origin, None, ir.DataType.UINT8)
    quotient = steps.op("Div", source, scale)
    values = rounded(steps, quotient, zero_point, ir.DataType.UINT8)
    steps.stand_for(values, *(without_axes(steps, value) for value in (scale, zero_point)))


def _multiply(steps: Steps) -> None:
    """Multiply scalars by their originals with one axis."""
    inputs = map(with_axis, steps.node.inputs)
    product = steps.op("Mul", *inputs)
    result = steps.node.outputs[0]
    if result.shape is not None and len(result.shape) == 0:
        product = without_axes(steps, product)
    steps.stand_for(product)


def _move(steps: Steps) -> None:
    node, integers = steps.node, held(steps.node.inputs[0])
    if integers is None or not _is_number(integers.zero_point):
        return
    attributes = dict(node.attributes.items())
    moved = steps.op(node.op_type, integers.values, *node.inputs[1:], **attributes)
    moved.shape, moved.dtype = node.outputs[0].shape, ir.DataType.FLOAT
    if integers.is_rounded:
        # The operator itself moves the integers, for those who read these.
        know(node.outputs[0], moved, None, is_rounded=True)
        return
    steps.stand_for(hold(steps, moved, integers.zero_point, node.inputs[0].dtype))


def _concat(steps: Steps) -> None:
    """Concatenate the floats of parts that have one zero point."""
    node, parts = steps.node, [held(value) for value in steps.node.inputs]
    if parts[0] is None or None in parts or not _is_number(zero_point := parts[0].zero_point):
        return
    if any(part.is_rounded for part in parts if part is not None):
        return
    values = [centred(steps, value, zero_point) for value in node.inputs]
    moved = steps.op("Concat", *values, axis=node.attributes["axis"].value)
    steps.stand_for(hold(steps, moved, zero_point, node.inputs[0].dtype))


def _is_number(zero_point: Any) -> bool:
    """Return whether a zero point is the same for all elements."""
    if zero_point is None:
        return True
    array = constant(zero_point)
    return (
        zero_point.shape is not None and not len(zero_point.shape)
        if array is None
        else array.size == 1
    )


_OF_ONNX: Mapping[str, Callable[[Steps], None]] = {
    **dict.fromkeys(PRODUCTS, product_of_scaled),
    "ConvInteger": conv_integer,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "MatMulInteger": matmul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": _quantize,
}

#: By domain and name.
QUANTISED: Mapping[str, Mapping[str, Callable[[Steps], None]]] = {
    "ai.onnx": _OF_ONNX,
    CONTRIB_DOMAIN: {
        **CONTRIB,
        "DequantizeLinear": _dequantize,
        "QuantizeLinear": _quantize,
    },
}
