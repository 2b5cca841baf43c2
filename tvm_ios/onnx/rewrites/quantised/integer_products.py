"""Rewrite integer convolutions and products as exact float sums, and round the results."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.quantised.integers import (
    as_floats,
    centred,
    held,
    hold,
    know,
    rounded,
    with_axis,
)
from tvm_ios.onnx.rewrites.steps import Steps

#: All integers up to this are exact in float32.
_EXACT = 1 << 24
#: The largest difference of two numbers of eight bits.
_SPAN = 255


def conv_integer(steps: Steps) -> None:
    """Write ``ConvInteger``, whose result is int32."""
    inputs: list[Any] = [*steps.node.inputs, None, None]
    data, weight, data_zero, weight_zero = inputs[:4]
    extents = list(weight.shape)
    parts = [centred(steps, data, _scalar(steps, data_zero))]
    weights = [centred(steps, weight, _of_outputs(steps, weight_zero, extents))]
    each = constant(weights[0])
    if each is None:
        each = np.full(extents, _SPAN)
    sums = np.abs(each).reshape(*extents[:2], -1).sum(2).T
    sizes = _sizes(steps, sums)
    if len(sizes) > 1:
        if steps.node.attributes.get_int("group", 1) > 1:
            raise _too_large(steps)
        parts = steps.split(parts[0], sizes, 1)
        weights = steps.split(weights[0], sizes, 1)
    sums = [_convolution(steps, *pair) for pair in zip(parts, weights, strict=True)]
    steps.stand_for(_int32(steps, sums))


def matmul_integer(steps: Steps) -> None:
    """Write ``MatMulInteger``, whose result is int32.

    A zero point that is computed is taken off the sums of constant weights: it times the sums of
    the weights, exactly. So the data stay bytes.
    """
    inputs: list[Any] = [*steps.node.inputs, None, None]
    a, b, a_zero, b_zero = inputs[:4]
    extents = list(b.shape)
    axis = max(len(extents) - 2, 0)
    zero = with_axis(_of_rows(steps, a_zero))
    right = [centred(steps, b, _scalar(steps, b_zero))]
    each = constant(right[0])
    is_computed = zero is not None and constant(zero) is None
    is_apart = is_computed and each is not None and len(extents) == 2
    left = [centred(steps, a, None if is_apart else zero)]
    if each is None:
        each = np.full(extents, _SPAN)
    sums = np.moveaxis(np.abs(each), axis, 0).reshape(extents[axis], -1)
    sizes = _sizes(steps, sums)
    if len(sizes) > 1:
        left = steps.split(left[0], sizes, len(a.shape) - 1)
        right = steps.split(right[0], sizes, axis)
    products = [steps.op("MatMul", *pair) for pair in zip(left, right, strict=True)]
    if is_apart:
        parts = np.split(each, np.cumsum(sizes)[:-1])
        taken_off = (steps.number(-part.sum(0, dtype=np.float32)) for part in parts)
        numbers = as_floats(steps, zero)
        products = [
            steps.op("Add", product, steps.op("Mul", numbers, sums))
            for product, sums in zip(products, taken_off, strict=True)
        ]
    steps.stand_for(_int32(steps, products))


def qlinear_conv(steps: Steps) -> None:
    """Write ``QLinearConv``: a sum with an int32 bias, scaled per channel and rounded."""
    given: list[Any] = [*steps.node.inputs, None]
    data, data_scale, data_zero, weight, weight_scale, weight_zero = given[:6]
    scale, zero, bias = given[6:9]
    extents = list(weight.shape)
    data = centred(steps, data, _scalar(steps, data_zero))
    weight = centred(steps, weight, _of_outputs(steps, weight_zero, extents))
    inputs = (data, weight) if bias is None else (data, weight, as_floats(steps, bias))
    total = _convolution(steps, *inputs)
    factors = (_scalar(steps, data_scale), _of_outputs(steps, weight_scale, extents, of_data=True))
    scaled = steps.op("Mul", total, factor(steps, *factors, _scalar(steps, scale)))
    steps.stand_for(rounded(steps, scaled, _scalar(steps, zero), zero.dtype))


def qlinear_matmul(steps: Steps) -> None:
    """Write ``QLinearMatMul``: a product, scaled per tensor or per row and column, and rounded."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = steps.node.inputs
    left = centred(steps, a, _of_rows(steps, a_zero))
    right = centred(steps, b, _scalar(steps, b_zero))
    factors = (_of_rows(steps, a_scale), _scalar(steps, b_scale), _of_rows(steps, scale))
    scaled = steps.op("Mul", steps.op("MatMul", left, right), factor(steps, *factors))
    steps.stand_for(rounded(steps, scaled, _of_rows(steps, zero), zero.dtype))


def _convolution(steps: Steps, *inputs: Any) -> Any:
    result = steps.op("Conv", *inputs, **dict(steps.node.attributes.items()))
    keep_sums_exact(result.producer())
    return result


def keep_sums_exact(node: Any) -> None:
    """Mark a node's weights as integers, so that no scale is folded into them."""
    node.meta[_EXACT_SUMS] = True


def has_exact_sums(node: Any) -> bool:
    """Return whether :func:`keep_sums_exact` has marked a node."""
    return _EXACT_SUMS in node.meta


_EXACT_SUMS = "tvm_ios.exact_sums"


def factor(steps: Steps, left: Any, right: Any, result: Any) -> Any:
    """Return the float32 factor ``left * right / result`` of a sum before it is rounded."""
    floats = [as_floats(steps, value) for value in (left, right, result)]
    arrays = [constant(value) for value in floats]
    if all(array is not None for array in arrays):
        a, b, c = (np.asarray(array) for array in arrays)
        return steps.number(np.asarray(a * b / c, np.float32))
    return steps.op("Div", steps.op("Mul", *floats[:2]), floats[2])


def _sizes(steps: Steps, magnitudes: Array) -> list[int]:
    """Return the sizes of the parts into which a sum is cut to be exact in float32.

    ``magnitudes``, of shape (terms, results), are the absolute weights. Raise GraphError if one
    term is too large.
    """
    terms = len(magnitudes)
    running = np.concatenate([np.zeros_like(magnitudes[:1]), magnitudes.cumsum(0)])
    for parts in range(1, terms + 1):
        sizes = [len(part) for part in np.array_split(np.arange(terms), parts)]
        ends = np.cumsum([0, *sizes])
        if np.diff(running[ends], axis=0).max(initial=0) * _SPAN <= _EXACT:
            return sizes
    raise _too_large(steps)


def _too_large(steps: Steps) -> GraphError:
    name = steps.node.name or steps.node.outputs[0].name
    return GraphError(
        f"operator {name!r} ({steps.node.op_type}) adds up more than float32 holds exactly: export "
        "the model without quantising it"
    )


def _int32(steps: Steps, sums: list[Any]) -> Any:
    """Return the sum of exact float sums in int32."""
    if len(sums) == 1:
        return hold(steps, sums[0], None, ir.DataType.INT32)
    add: Callable[[Any, Any], Any] = lambda a, b: steps.op("Add", a, b)  # noqa: E731
    result = reduce(add, [steps.op("Cast", s, to=int(ir.DataType.INT32)) for s in sums])
    result.dtype = ir.DataType.INT32
    if len(sums) == 2:
        # Rounded once, as when the integer becomes a float.
        know(result, add(*sums), None, is_rounded=True)
    return result


def add_int32(steps: Steps) -> None:
    """Let readers of floats read the sum of two int32 tensors that floats hold, rounded once."""
    addends = [_exact(steps, value) for value in steps.node.inputs]
    if None in addends:
        return
    (result,) = steps.node.outputs
    total = steps.op("Add", *addends)
    total.shape, total.dtype = result.shape, ir.DataType.FLOAT
    know(result, total, None, is_rounded=True)


def _exact(steps: Steps, value: Any) -> Any:
    """Return the floats that hold an int32 tensor exactly, or None if there are none."""
    array, integers = constant(value), held(value)
    if array is not None:
        is_exact = np.abs(array.astype(np.int64)).max(initial=0) <= _EXACT
        return as_floats(steps, value) if is_exact else None
    if integers is None or integers.is_rounded or integers.zero_point is not None:
        return None
    return integers.values


def _scalar(steps: Steps, value: Any) -> Any:
    """Return a value of shape (1,) as a scalar, and any other as it is."""
    if value is None or value.shape is None or list(value.shape) != [1]:
        return value
    return steps.reshaped(value, [1], [])


def _of_rows(steps: Steps, value: Any) -> Any:
    """Return one number per row of a matrix as a column."""
    if value is None or value.shape is None or len(value.shape) != 1 or list(value.shape) == [1]:
        return _scalar(steps, value)
    return steps.reshaped(value, list(value.shape), [value.shape[0], 1])


def _of_outputs(steps: Steps, value: Any, weight: list[int], *, of_data: bool = False) -> Any:
    """Return one number per output channel, broadcastable over the weights.

    With ``of_data`` it broadcasts over the convolution's result. None stays None.
    """
    if value is None or value.shape is None or len(value.shape) != 1 or list(value.shape) == [1]:
        return _scalar(steps, value)
    channels = [weight[0], *([1] * (len(weight) - 1))]
    return steps.reshaped(
        value, list(value.shape), channels[:1] + channels[2:] if of_data else channels
    )
