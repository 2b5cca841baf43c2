"""Rewrites of quantised operators in ONNX Runtime's own domain, which its quantiser writes.

Each is an operator of ONNX between a dequantisation and a quantisation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.rewrites.quantised.integer_products import factor, keep_sums_exact
from tvm_ios.onnx.rewrites.quantised.integers import LIMITS, as_floats, centred, multiplied, rounded
from tvm_ios.onnx.rewrites.steps import Steps, static_shape

#: The domain of the operators of :data:`CONTRIB`.
CONTRIB_DOMAIN = "com.microsoft"


def _dequantised(steps: Steps, value: Any, scale: Any, zero_point: Any) -> Any:
    return multiplied(steps, centred(steps, value, zero_point), as_floats(steps, scale))


def _quantised(steps: Steps, numbers: Any, scale: Any, zero_point: Any) -> Any:
    """Return numbers quantised to the integer type that the node reads."""
    quotient = steps.op("Div", numbers, as_floats(steps, scale))
    return rounded(steps, quotient, zero_point, _type(steps))


def _type(steps: Steps) -> Any:
    """Return the integer type of a node's tensors."""
    return next(v.dtype for v in steps.node.inputs if v is not None and v.dtype in LIMITS)


def _binary(kind: str) -> Callable[[Steps], None]:
    def write(steps: Steps) -> None:
        inputs = [*steps.node.inputs, None][:8]
        result = steps.op(kind, _dequantised(steps, *inputs[:3]), _dequantised(steps, *inputs[3:6]))
        steps.stand_for(_quantised(steps, result, *inputs[6:]))

    return write


def _unary(kind: str, *attributes: str) -> Callable[[Steps], None]:
    """Return a rewrite of an operator of one tensor, with the ``attributes`` that ONNX has."""

    def write(steps: Steps) -> None:
        inputs, of_node = [*steps.node.inputs, None][:5], steps.node.attributes
        attributes_of_onnx = {name: of_node[name] for name in attributes if name in of_node}
        result = steps.op(kind, _dequantised(steps, *inputs[:3]), **attributes_of_onnx)
        steps.stand_for(_quantised(steps, result, *inputs[3:]))

    return write


def _softmax(steps: Steps) -> None:
    attributes, extents = steps.node.attributes, static_shape(steps.node.inputs[0])
    axis = attributes.get_int("axis", -1)
    # For the last axis all opsets agree.
    is_last = axis == -1 or (extents is not None and axis == len(extents) - 1)
    if not is_last and ((attributes.get_int("opset", 13) < 13) != (steps.opset < 13)):
        raise GraphError(
            f"operator {steps.node.name!r} (QLinearSoftmax) means the axis of another opset than "
            "the model's: export the model without quantising it"
        )
    _unary("Softmax", "axis")(steps)


def _concat(steps: Steps) -> None:
    scale, zero_point, *parts = steps.node.inputs
    values = [_dequantised(steps, *parts[i : i + 3]) for i in range(0, len(parts), 3)]
    result = steps.op("Concat", *values, axis=steps.node.attributes["axis"].value)
    steps.stand_for(_quantised(steps, result, scale, zero_point))


def _where(steps: Steps) -> None:
    condition, *inputs = [*steps.node.inputs, None][:9]
    values = (_dequantised(steps, *inputs[i : i + 3]) for i in (0, 3))
    steps.stand_for(_quantised(steps, steps.op("Where", condition, *values), *inputs[6:]))


def _gemm(steps: Steps) -> None:
    """Rewrite ``QGemm``, whose bias is in units of both scales and whose result may be a float."""
    a, a_scale, a_zero, b, b_scale, b_zero, *rest = steps.node.inputs
    bias, scale, zero_point = (*rest, None, None, None)[:3]
    left, right = centred(steps, a, a_zero), centred(steps, b, b_zero)
    inputs = (left, right) if bias is None else (left, right, as_floats(steps, bias))
    get = steps.node.attributes.get_int
    total = steps.op("Gemm", *inputs, transA=get("transA", 0), transB=get("transB", 0))
    keep_sums_exact(total.producer())
    alpha = steps.number(np.array(steps.node.attributes.get_float("alpha", 1.0), np.float32))
    b_scale = multiplied(steps, as_floats(steps, b_scale), alpha)
    divisor = steps.number(np.array(1, np.float32)) if scale is None else scale
    scaled = steps.op("Mul", total, factor(steps, a_scale, b_scale, divisor))
    scaled.dtype = ir.DataType.FLOAT
    steps.stand_for(scaled if scale is None else rounded(steps, scaled, zero_point, _type(steps)))


_WINDOW = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")

#: By the operators' names.
CONTRIB: Mapping[str, Callable[[Steps], None]] = {
    "QGemm": _gemm,
    "QLinearAdd": _binary("Add"),
    "QLinearAveragePool": _unary("AveragePool", *_WINDOW),
    "QLinearConcat": _concat,
    "QLinearGlobalAveragePool": _unary("GlobalAveragePool"),
    "QLinearLeakyRelu": _unary("LeakyRelu", "alpha"),
    "QLinearMul": _binary("Mul"),
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearSoftmax": _softmax,
    "QLinearWhere": _where,
}
