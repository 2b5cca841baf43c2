"""Rewrites of integer products with float results as ``MatMulInteger`` and scaling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir

from tvm_ios.onnx.rewrites.other_domains.deferred import input_of, rank_of
from tvm_ios.onnx.rewrites.other_domains.fused import channels_first, channels_last
from tvm_ios.onnx.rewrites.steps import Steps


def as_float_product(
    steps: Steps, left: tuple[Any, Any, Any], right: tuple[Any, Any, Any], bias: Any
) -> Any:
    """Return the product of two integer tensors, each with scale and zero point, plus a bias."""
    (a, a_scale, a_zero), (b, b_scale, b_zero) = left, right
    zeros = (a_zero,) if b_zero is None else (a_zero, b_zero)
    product = steps.op("MatMulInteger", a, b, *zeros)
    numbers = steps.op("Cast", product, to=int(ir.DataType.FLOAT))
    numbers.dtype = ir.DataType.FLOAT
    result = steps.op("Mul", numbers, steps.op("Mul", a_scale, b_scale))
    return result if bias is None else steps.op("Add", result, bias)


def _matmul_to_float(steps: Steps) -> None:
    a, b, a_scale, b_scale, a_zero, b_zero, bias = (input_of(steps, place) for place in range(7))
    steps.stand_for(as_float_product(steps, (a, a_scale, a_zero), (b, b_scale, b_zero), bias))


def dynamic_product(steps: Steps, left: Any, right: tuple[Any, Any, Any], bias: Any) -> Any:
    """Return a float tensor, quantised to 8 bits, times an integer tensor, plus a bias."""
    return as_float_product(steps, quantised(steps, left), right, bias)


def quantised(steps: Steps, source: Any) -> tuple[Any, Any, Any]:
    """Return a float tensor quantised to 8 bits, with its scale and zero point."""
    values, scale, zero_point = steps.op("DynamicQuantizeLinear", source, outputs=3)
    for value, dtype in ((values, "UINT8"), (scale, "FLOAT"), (zero_point, "UINT8")):
        value.dtype = ir.DataType[dtype]
    return values, scale, zero_point


def _dynamic_matmul(steps: Steps) -> None:
    source, weight, scale, zero, bias = (input_of(steps, place) for place in range(5))
    steps.stand_for(dynamic_product(steps, source, (weight, scale, zero), bias))


def _channels_first(place: int, domain: str) -> Callable[[Steps], None]:
    """Return a rewrite of a channels-last node as the same operator with channels first.

    ``place`` is that of an input with the image's rank; ``domain`` is the new operator's.
    """

    def write(steps: Steps) -> None:
        node = steps.node
        source, *others = node.inputs
        stated = steps.attributes
        last = stated.pop("channels_last", 0)
        rank = rank_of(node.inputs[place]) if last else 0
        first = channels_first(steps, source, rank) if last else source
        first.dtype = source.dtype or node.outputs[0].dtype
        result = steps.op(node.op_type, first, *others, **stated)
        result.producer().domain, result.dtype = domain, node.outputs[0].dtype
        steps.stand_for(channels_last(steps, result, rank) if last else result)

    return write


#: By the operators' names.
INTEGERS: Mapping[str, Callable[[Steps], None]] = {
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "MatMulIntegerToFloat": _matmul_to_float,
}
#: Those of which only what lays channels last is written in others.
CHANNELS_LAST: Mapping[str, Callable[[Steps], None]] = {
    "QLinearAveragePool": _channels_first(0, "com.microsoft"),
    "QLinearConv": _channels_first(3, ""),
    "QLinearGlobalAveragePool": _channels_first(0, "com.microsoft"),
}
