"""Quantised operators, as random networks draw them.

Scales are powers of two and inputs exact: whoever computes rightly computes the same integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from .drawn_network import Draw, Network, Value


def _scale(net: Network) -> str:
    return net.const(2.0 ** -int(net.random.integers(3, 6)))


def _zero_point(net: Network, dtype: str) -> str:
    if dtype == "int8":
        return net.const(np.array(net.pick(0, 0, -3, 5), dtype))
    return net.const(np.array(net.pick(0, 128, 121), dtype))


def _quantised(net: Network, x: Value, dtype: str) -> tuple[str, str, str]:
    scale, zero_point = _scale(net), _zero_point(net, dtype)
    return net.op("QuantizeLinear", x.name, scale, zero_point), scale, zero_point


def _weight(net: Network, dtype: str, *shape: int) -> str:
    low = -20 if dtype == "int8" else 100
    return net.const(net.random.integers(low, low + 50, shape).astype(dtype))


def _there_and_back(net: Network, x: Value) -> str | None:
    if not x.exact:
        return None
    if x.shape and net.pick(True, False):
        axis = net.axis(x)
        extent = x.shape[axis]
        scales = net.const(2.0 ** -net.random.integers(3, 6, extent).astype("f4"))
        points = net.const(net.random.integers(-5, 5, extent).astype("i1"))
        quantised = net.op("QuantizeLinear", x.name, scales, points, axis=axis)
        return net.op("DequantizeLinear", quantised, scales, points, axis=axis)
    quantised, scale, zero_point = _quantised(net, x, net.pick("int8", "uint8"))
    if len(x.shape) == 4 and net.pick(True, False):
        quantised = net.op("MaxPool", quantised, kernel_shape=[1, 1], strides=[2, 1])
    return net.op("DequantizeLinear", quantised, scale, zero_point)


def _convolution(net: Network, x: Value) -> str | None:
    if not x.exact or len(x.shape) != 4:
        return None
    kernel = [net.pick(1, 3), net.pick(1, 2, 3)]
    out, dtype, weight_dtype = net.pick(1, 4, 6), net.pick("int8", "uint8"), "int8"
    attributes: dict[str, Any] = {"pads": [k // 2 for k in (*kernel, *kernel)]}
    attributes["strides"] = [net.pick(1, 2), 1]
    quantised, scale, zero_point = _quantised(net, x, dtype)
    weight = _weight(net, weight_dtype, out, x.shape[1], *kernel)
    none = net.const(np.zeros((), "int8"))
    if net.pick(True, False, False) and dtype == "uint8":
        sums = net.op("ConvInteger", quantised, weight, zero_point, none, **attributes)
        return net.op("Mul", net.op("Cast", sums, to=TensorProto.FLOAT), net.const(2.0**-12))
    if net.pick(True, False):
        # As an exporter writes it: constants and results through both operators.
        bias = net.const(net.random.integers(-90, 90, out).astype("int32"))
        bias = net.op("DequantizeLinear", bias, net.const(2.0**-10))
        data = net.op("DequantizeLinear", quantised, scale, zero_point)
        weight = net.op("DequantizeLinear", weight, net.const(2.0**-7), none)
        result = net.op("Conv", data, weight, bias, **attributes)
        result = net.op("Relu", result) if net.pick(True, False) else result
        after = net.const(2.0**-3), _zero_point(net, dtype)
        return net.op("DequantizeLinear", net.op("QuantizeLinear", result, *after), *after)
    shape = net.pick((out,), ())
    scales = net.const(2.0 ** -net.random.integers(6, 9, shape).astype("f4"))
    after = net.const(2.0**-2), _zero_point(net, dtype)
    bias = (net.const(net.random.integers(-90, 90, out).astype("int32")),)
    inputs = (quantised, scale, zero_point, weight, scales, net.const(np.zeros(shape, "int8")))
    result = net.op("QLinearConv", *inputs, *after, *net.pick(bias, ()), **attributes)
    return net.op("DequantizeLinear", result, *after)


def _product(net: Network, x: Value) -> str | None:
    if not x.exact or len(x.shape) < 2:
        return None
    quantised, scale, zero_point = _quantised(net, x, "uint8")
    weight = _weight(net, net.pick("int8", "uint8"), x.shape[-1], net.pick(1, 4, 8))
    kind = net.constants[weight].data_type
    other = net.const(np.array(3, "int8" if kind == TensorProto.INT8 else "uint8"))
    if net.pick(True, False):
        sums = net.op("MatMulInteger", quantised, weight, zero_point, other)
        return net.op("Mul", net.op("Cast", sums, to=TensorProto.FLOAT), net.const(2.0**-12))
    after = net.const(2.0**-1), _zero_point(net, "uint8")
    inputs = (quantised, scale, zero_point, weight, net.const(2.0**-7), other, *after)
    return net.op("DequantizeLinear", net.op("QLinearMatMul", *inputs), *after)


QUANTISES: list[Draw] = [_there_and_back, _convolution, _product]
