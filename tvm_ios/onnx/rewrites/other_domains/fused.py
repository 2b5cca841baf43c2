"""Rewrites of activations, products and convolutions that ONNX Runtime fused with neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from typing import Any

from tvm_ios.onnx.rewrites.other_domains.deferred import input_of, refusal, shape_of, type_of
from tvm_ios.onnx.rewrites.steps import Steps

#: The factors of ``FastGelu``.
_LINEAR, _CUBIC = 0.7978845608028654, 0.035677408136300125
#: Activations that others are fused with, and the names of their parameters, in order.
_ACTIVATIONS: Mapping[str, Sequence[str]] = {
    "Clip": ("min", "max"),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Selu": ("alpha", "gamma"),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "Tanh": (),
    "ThresholdedRelu": ("alpha",),
}


def _gelu(steps: Steps, value: Any) -> Any:
    bent = steps.op("Erf", steps.op("Mul", value, steps.number(sqrt(0.5))))
    half = steps.op("Mul", value, steps.number(0.5))
    return steps.op("Mul", half, steps.op("Add", bent, steps.number(1.0)))


def _fast_gelu(steps: Steps, value: Any) -> Any:
    cubic = steps.op("Mul", steps.op("Mul", value, value), steps.number(_CUBIC))
    slope = steps.op("Add", cubic, steps.number(_LINEAR))
    bent = steps.op("Tanh", steps.op("Mul", value, slope))
    half = steps.op("Mul", value, steps.number(0.5))
    return steps.op("Mul", half, steps.op("Add", bent, steps.number(1.0)))


def _quick_gelu(steps: Steps, value: Any) -> Any:
    alpha = steps.node.attributes.get_float("alpha", 1.702)
    scaled = steps.op("Mul", value, steps.number(alpha))
    return steps.op("Mul", value, steps.op("Sigmoid", scaled))


def _of_sum(activation: Callable[[Steps, Any], Any]) -> Callable[[Steps], None]:
    """Return a rewrite of an activation whose input may have a bias added."""

    def write(steps: Steps) -> None:
        value, bias = input_of(steps, 0), input_of(steps, 1)
        steps.stand_for(activation(steps, value if bias is None else steps.op("Add", value, bias)))

    return write


def _split_gelu(steps: Steps) -> None:
    """Rewrite a biased split GELU: one half of the sum times the GELU of the other half."""
    value = steps.op("Add", *steps.node.inputs)
    half = shape_of(steps.node.inputs[1])[0] // 2
    left, right = steps.split(value, [half, half], -1)
    steps.stand_for(steps.op("Mul", left, _gelu(steps, right)))


def _sum(steps: Steps) -> None:
    value, bias, skip = steps.node.inputs
    steps.stand_for(steps.op("Add", steps.op("Add", value, bias), skip))


def _softmax_of_sum(steps: Steps) -> None:
    """Rewrite the softmax of a sum, over all axes from ``axis`` on as before opset 13."""
    extents = shape_of(steps.node.inputs[0])
    axis = steps.integer("axis", 1) % len(extents)
    value = steps.op("Add", *steps.node.inputs)
    rows = [*extents[:axis], -1]
    value = steps.op("Softmax", steps.reshaped(value, extents, rows), axis=-1)
    steps.stand_for(steps.reshaped(value, rows, extents))


def _turned(steps: Steps, place: int) -> Any:
    """Return an operand of a product with its axes transposed as the node states."""
    value, side = steps.node.inputs[place], "AB"[place]
    last, batch = steps.integer(f"trans{side}", 0), steps.integer(f"transBatch{side}", 0)
    if not last and not batch:
        return value
    axes = list(range(len(shape_of(value))))
    if batch:
        axes = [*axes[1:-1], 0, axes[-1]]
    if last and len(axes) > 1:
        axes = [*axes[:-2], axes[-1], axes[-2]]
    return steps.transposed(value, axes)


def _matmul(steps: Steps) -> None:
    result = steps.op("MatMul", _turned(steps, 0), _turned(steps, 1))
    alpha = steps.node.attributes.get_float("alpha", 1.0)
    if alpha != 1.0:
        result = steps.op("Mul", result, steps.number(alpha))
    steps.stand_for(_activated(steps, result))


def _gemm(steps: Steps) -> None:
    names = ("alpha", "beta", "transA", "transB")
    stated = {name: value for name, value in steps.attributes.items() if name in names}
    steps.stand_for(_activated(steps, steps.op("Gemm", *steps.node.inputs, **stated)))


def _gemm_fast_gelu(steps: Steps) -> None:
    data, weight, bias = (input_of(steps, place) for place in range(3))
    value = steps.op("MatMul", data, weight)
    value = value if bias is None else steps.op("Add", value, bias)
    steps.stand_for(_fast_gelu(steps, value))


def _conv(steps: Steps) -> None:
    data, weight, added = (input_of(steps, place) for place in (0, 1, 3))
    steps.stand_for(_convolved(steps, data, added, weight))


def _conv_channels_last(steps: Steps) -> None:
    extents = shape_of(steps.node.inputs[1])
    rank, added = len(extents), input_of(steps, 3)
    added = added if added is None else channels_first(steps, added, rank)
    data = channels_first(steps, steps.node.inputs[0], rank)
    # NhwcConv is written with weights in either order; a kernel of so many columns is both.
    channels = shape_of(steps.node.inputs[0])[-1] // steps.integer("group", 1)
    weight = steps.node.inputs[1]
    if steps.node.op_type == "NhwcConv" and extents[-1] == channels:
        if extents[1] == channels:
            raise refusal(steps, "does not tell channels from columns of its weights")
        weight = steps.transposed(weight, [0, rank - 1, *range(1, rank - 1)])
    convolved = _convolved(steps, data, added, weight)
    steps.stand_for(channels_last(steps, convolved, rank))


def _max_pool_channels_last(steps: Steps) -> None:
    rank = len(steps.integers("kernel_shape")) + 2
    first = channels_first(steps, steps.node.inputs[0], rank)
    pooled = steps.op("MaxPool", first, **steps.attributes)
    first.dtype = pooled.dtype = type_of(steps.node.inputs[0])
    steps.stand_for(channels_last(steps, pooled, rank))


def channels_first(steps: Steps, value: Any, rank: int) -> Any:
    """Return an image with channels last transposed to channels first (after the batch)."""
    return steps.op("Transpose", value, perm=[0, rank - 1, *range(1, rank - 1)])


def channels_last(steps: Steps, value: Any, rank: int) -> Any:
    """Return an image with channels first transposed to channels last."""
    return steps.op("Transpose", value, perm=[0, *range(2, rank), 1])


def _convolved(steps: Steps, data: Any, added: Any, weight: Any) -> Any:
    bias = input_of(steps, 2)
    stated = {k: v for k, v in steps.attributes.items() if not k.startswith("activation")}
    inputs = (data, weight) if bias is None else (data, weight, bias)
    result = steps.op("Conv", *inputs, **stated)
    return _activated(steps, result if added is None else steps.op("Add", result, added))


def _activated(steps: Steps, value: Any) -> Any:
    """Return a value with the node's activation applied, if it names one."""
    kind = steps.node.attributes.get_string("activation", "")
    if not kind:
        return value
    if kind not in _ACTIVATIONS:
        raise refusal(steps, f"has the activation {kind!r}")
    listed = steps.node.attributes.get_floats("activation_params", [])
    stated = dict(zip(_ACTIVATIONS[kind], listed, strict=False))
    for name in _ACTIVATIONS[kind]:
        attribute = steps.node.attributes.get(f"activation_{name}")
        if attribute is not None:
            stated[name] = attribute.value
    if kind == "Clip":
        return steps.clipped(value, stated["min"], stated["max"])
    return steps.op(kind, value, **stated)


#: By the operators' names.
FUSED: Mapping[str, Callable[[Steps], None]] = {
    "BiasAdd": _sum,
    "BiasGelu": _of_sum(_gelu),
    "BiasSoftmax": _softmax_of_sum,
    "BiasSplitGelu": _split_gelu,
    "FastGelu": _of_sum(_fast_gelu),
    "FusedConv": _conv,
    "FusedGemm": _gemm,
    "FusedMatMul": _matmul,
    "FusedMatMulActivation": _matmul,
    "Gelu": _of_sum(_gelu),
    "GemmFastGelu": _gemm_fast_gelu,
    "NhwcConv": _conv_channels_last,
    "NhwcFusedConv": _conv_channels_last,
    "NhwcMaxPool": _max_pool_channels_last,
    "QuickGelu": _of_sum(_quick_gelu),
    "TransposeMatMul": _matmul,
}
