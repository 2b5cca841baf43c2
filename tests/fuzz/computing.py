"""Operators that compute, as random networks draw them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from .drawn_network import Draw, Network, Value

COMPUTES: list[Draw] = []


def _compute(draw: Draw) -> Draw:
    COMPUTES.append(draw)
    return draw


def _pads(net: Network, kernel: Sequence[int], most: int = 2) -> list[int]:
    sides = [int(net.random.integers(0, min(most, k - 1) + 1)) for k in (*kernel, *kernel)]
    return sides if net.pick(True, False) else [k // 2 for k in (*kernel, *kernel)]


@_compute
def _convolution(net: Network, x: Value) -> str | None:
    spatial = len(x.shape) - 2
    if spatial not in (1, 2):
        return None
    channels = x.shape[1]
    groups = net.pick(1, 1, 1, *(g for g in (2, channels) if channels % g == 0))
    out = groups * net.pick(1, 1, 2, 3, 8)
    kernel = [net.pick(1, 1, 2, 3, 3, 5) for _ in range(spatial)]
    attributes: dict[str, Any] = {"group": groups}
    if net.pick(True, True, False):
        attributes["pads"] = _pads(net, kernel)
    else:
        attributes["auto_pad"] = net.pick("SAME_UPPER", "SAME_LOWER", "VALID")
    if net.pick(True, False):
        attributes["strides"] = [net.pick(1, 2, 3) for _ in range(spatial)]
    if net.pick(True, False, False) and "auto_pad" not in attributes:
        attributes["dilations"] = [net.pick(1, 2) for _ in range(spatial)]
    bias = (net.weight(out),) if net.pick(True, False) else ()
    weight = net.weight(out, channels // groups, *kernel)
    return net.op("Conv", x.name, weight, *bias, **attributes)


@_compute
def _twin_convolutions(net: Network, x: Value) -> Any:
    """Some that may be merged, with what may come after each of them."""
    if len(x.shape) != 4:
        return None
    size = net.pick(1, 3)
    branches: list[str] = []
    for _ in range(net.pick(2, 3)):
        kernel = [net.pick(1, size), net.pick(1, size)]
        out = net.pick(1, 2, 4, 16)
        pads = [k // 2 for k in (*kernel, *kernel)]
        convolution = net.op("Conv", x.name, net.weight(out, x.shape[1], *kernel), pads=pads)
        after = net.pick("Relu", "Sigmoid", None)
        branches.append(convolution if after is None else net.op(after, convolution))
    return [net.op("Concat", *branches, axis=1)] if net.pick(True, False) else branches


@_compute
def _transposed(net: Network, x: Value) -> str | None:
    if len(x.shape) != 4:
        return None
    groups = net.pick(1, 1, *(g for g in (2,) if x.shape[1] % g == 0))
    kernel, strides = [net.pick(1, 2, 3), net.pick(2, 3)], [net.pick(1, 2), net.pick(1, 2)]
    extra = [int(net.random.integers(0, s)) for s in strides]
    weight = net.weight(x.shape[1], net.pick(1, 3, 8), *kernel)
    return net.op(
        "ConvTranspose",
        *(x.name, weight),
        group=groups,
        strides=strides,
        pads=_pads(net, kernel, 1),
        output_padding=extra,
    )


@_compute
def _pool(net: Network, x: Value) -> str | None:
    if len(x.shape) != 4:
        return None
    kind = net.pick("MaxPool", "MaxPool", "AveragePool", "AveragePool", "GlobalMaxPool")
    kind = net.pick(kind, kind, kind, "GlobalAveragePool")
    if kind.startswith("Global"):
        return net.op(kind, x.name)
    kernel = [net.pick(1, 2, 3), net.pick(1, 2, 3, 5)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "ceil_mode": net.pick(0, 0, 1)}
    if net.pick(True, True, False):
        pads = zip(_pads(net, kernel), kernel * 2, strict=True)
        attributes["pads"] = [min(pad, extent - 1) for pad, extent in pads]
    attributes["strides"] = [net.pick(1, 1, 2, 3), net.pick(1, 2)]
    if kind == "AveragePool":
        attributes["count_include_pad"] = net.pick(0, 1)
    elif net.pick(True, False, False):
        attributes["dilations"] = [net.pick(1, 2), 1]
    return net.op(kind, x.name, **attributes)


@_compute
def _norm(net: Network, x: Value) -> str | None:
    if len(x.shape) < 2:
        return None
    channels = x.shape[1]
    match net.pick("batch", "batch", "instance", "layer", "lrn"):
        case "batch":
            rows = (net.positive(channels), net.weight(channels), net.weight(channels))
            return net.op("BatchNormalization", x.name, *rows, net.positive(channels))
        case "instance" if len(x.shape) > 2:
            rows = (net.positive(channels), net.weight(channels))
            return net.op("InstanceNormalization", x.name, *rows, epsilon=0.01)
        case "lrn" if len(x.shape) == 4:
            size, beta = net.pick(1, 3, 5), net.pick(0.75, 0.5)
            return net.op("LRN", x.name, size=size, alpha=0.1, beta=beta, bias=net.pick(1.0, 2.0))
        case _:
            axis = net.pick(-1, len(x.shape) - 1, 1)
            shape = x.shape[axis:]
            bias = (net.weight(*shape),) if net.pick(True, False) else ()
            rows = (net.positive(*shape), *bias)
            return net.op("LayerNormalization", x.name, *rows, axis=axis, epsilon=0.01)


@_compute
def _product(net: Network, x: Value) -> str | None:
    if len(x.shape) < 2:
        return None
    depth, columns = x.shape[-1], net.pick(1, 3, 8, 20)
    match net.pick("weight", "gemm", "gemm", "square", "left", "batched"):
        case "gemm":
            flat = net.op("Flatten", x.name, axis=1)
            rows, depth = net.shape(flat) or (1, 1)
            turned = net.pick(0, 1)
            weight = net.weight(*((columns, depth) if turned else (depth, columns)))
            shape = net.pick((columns,), (1, columns), (rows, columns), (1,), ())
            bias = (net.weight(*shape),) if net.pick(True, False) else ()
            factors = {"alpha": net.pick(1.0, 0.5), "beta": net.pick(1.0, 2.0)}
            return net.op("Gemm", flat, weight, *bias, transB=turned, **factors)
        case "square":
            rank = len(x.shape)
            turned = net.op("Transpose", x.name, perm=[*range(rank - 2), rank - 1, rank - 2])
            pair = (x.name, turned) if net.pick(True, False) else (turned, x.name)
            return net.op("MatMul", *pair)
        case "left":
            return net.op("MatMul", net.weight(columns, x.shape[-2]), x.name)
        case "batched":
            outer = tuple(net.pick(1, e) for e in x.shape[:-2])
            return net.op("MatMul", x.name, net.weight(*outer, depth, columns))
        case _:
            product = net.op("MatMul", x.name, net.weight(depth, columns))
            return net.op("Add", product, net.weight(columns)) if net.pick(True, False) else product


_PLAIN = ["Relu", "Sigmoid", "Tanh", "Erf", "Abs", "Neg", "Softplus", "Softsign", "Sin", "Cos"]
_PLAIN += ["HardSigmoid", "HardSwish", "Elu", "Selu", "Celu", "Mish", "Identity", "Dropout"]


@_compute
def _activation(net: Network, x: Value) -> str:
    match net.pick(*_PLAIN, "LeakyRelu", "ThresholdedRelu"):
        case "LeakyRelu":
            return net.op("LeakyRelu", x.name, alpha=0.3)
        case "ThresholdedRelu":
            return net.op("ThresholdedRelu", x.name, alpha=0.0)
        case kind:
            return net.op(kind, x.name)


@_compute
def _bounded(net: Network, x: Value) -> str:
    low = net.const(net.pick(-1.0, -0.25, 0.0))
    high = net.const(net.pick(0.125, 0.5, 6.0))
    match net.pick("both", "low", "high", "prelu", "root", "exp", "log", "reciprocal"):
        case "both":
            return net.op("Clip", x.name, low, high)
        case "low":
            return net.op("Clip", x.name, low)
        case "high":
            return net.op("Clip", x.name, "", high)
        case "prelu":
            slope = (x.shape[1], *(1 for _ in x.shape[2:])) if len(x.shape) > 1 else (1,)
            return net.op("PRelu", x.name, net.weight(*slope))
        case "exp":
            return net.op("Exp", net.op("Tanh", x.name))
        case kind:
            safe = net.op("Add", net.op("Abs", x.name), net.const(0.5))
            return net.op({"root": "Sqrt", "log": "Log"}.get(kind, "Reciprocal"), safe)


@_compute
def _arithmetic(net: Network, x: Value) -> str:
    kind = net.pick("Add", "Add", "Sub", "Mul", "Mul", "Div", "Max", "Min", "Pow", "Sum", "Mean")
    fitting = [v.name for v in net.values if _fits(v.shape, x.shape)]
    shape = tuple(net.pick(1, extent, extent) for extent in x.shape)[net.pick(0, 0, 1) :]
    other = net.pick(*fitting, net.weight(*shape), net.const(0.75), net.const([1.25]))
    if kind == "Div":
        other = net.op("Add", net.op("Abs", other), net.const(0.5))
    if kind == "Pow":
        return net.op(kind, net.op("Abs", x.name), net.const(net.pick(0.5, 2.0, 3.0, 1.5)))
    pair = (x.name, other) if net.pick(True, False) else (other, x.name)
    more = (net.pick(*fitting),) if kind in ("Sum", "Mean", "Max", "Min") else ()
    return net.op(kind, *pair, *more)


def _fits(shape: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether it can be broadcast to the other."""
    ends = zip(reversed(shape), reversed(whole), strict=False)
    return len(shape) <= len(whole) and all(a in (1, b) for a, b in ends)


@_compute
def _reduction(net: Network, x: Value) -> str | None:
    if not x.shape:
        return None
    kind = net.pick("Mean", "Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "SumSquare")
    kind = net.pick(kind, kind, kind, kind, "LogSumExp")
    axes = net.axes(x)
    keep = net.pick(0, 1)
    return net.op(f"Reduce{kind}", x.name, net.const(np.array(axes)), keepdims=keep)


@_compute
def _along(net: Network, x: Value) -> str | None:
    if not x.shape:
        return None
    kind = net.pick("Softmax", "Softmax", "LogSoftmax", "CumSum", "Sorted")
    if kind == "CumSum":
        flags = {"exclusive": net.pick(0, 1), "reverse": net.pick(0, 1)}
        return net.op(kind, x.name, net.const(np.array(net.axis(x))), **flags)
    if kind == "Sorted":
        axis = net.axis(x)
        count = net.const(np.array([net.pick(1, x.shape[axis])]))
        return net.op("TopK", x.name, count, outputs=2, axis=axis, largest=net.pick(0, 1))[0]
    return net.op(kind, x.name, axis=net.axis(x))


@_compute
def _stepwise(net: Network, x: Value) -> str | None:
    """What jumps, of values that every program computes alike."""
    if not x.exact:
        return None
    match net.pick("round", "compare", "compare", "integer", "arg"):
        case "round":
            return net.op(net.pick("Floor", "Ceil", "Round", "Sign"), x.name)
        case "compare":
            kind = net.pick("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal")
            mask = net.op(kind, x.name, net.const(net.pick(0.0, 0.25)))
            mask = net.op("Not", mask) if net.pick(True, False) else mask
            others = [v.name for v in net.values if v.shape == x.shape]
            return net.op("Where", mask, net.pick(*others), net.const(net.pick(0.0, -1.0)))
        case "arg" if x.shape:
            kind = net.pick("ArgMax", "ArgMin")
            result = net.op(kind, x.name, axis=net.axis(x), keepdims=net.pick(0, 1))
            if net.pick(True, False):
                return net.op("OneHot", result, net.const(np.array(9)), net.const([0.0, 1.5]))
            return net.op("Cast", result, to=TensorProto.FLOAT)
        case _:
            whole = net.op("Cast", net.op("Mul", x.name, net.const(4.0)), to=TensorProto.INT64)
            kind = net.pick("Div", "Mod", "Mul", "Sub", "Add")
            result = net.op(kind, whole, net.const(np.array(net.pick(2, 3, 5))))
            return net.op("Cast", result, to=TensorProto.FLOAT)


@_compute
def _doubles(net: Network, x: Value) -> str:
    wide = net.op("Cast", x.name, to=TensorProto.DOUBLE)
    wide_result = net.op(net.pick("Relu", "Tanh", "Neg", "Sqrt"), net.op("Abs", wide))
    return net.op("Cast", wide_result, to=TensorProto.FLOAT)


@_compute
def _attention(net: Network, x: Value) -> str | None:
    if len(x.shape) != 3:
        return None
    width = net.pick(4, 8)
    read = [net.op("MatMul", x.name, net.weight(x.shape[2], width)) for _ in range(3)]
    turned = net.op("Transpose", read[1], perm=[0, 2, 1])
    scores = net.op("Mul", net.op("MatMul", read[0], turned), net.const(0.5))
    return net.op("MatMul", net.op("Softmax", scores, axis=-1), read[2])


@_compute
def _einsum(net: Network, x: Value) -> str:
    """Of a value and weights; which axes they share, and which of all stay, is drawn."""
    letters = "abcdef"[: len(x.shape)]
    extents = dict(zip(letters, x.shape, strict=True)) | {"y": net.pick(1, 2, 5)}
    other = [letter for letter in extents if net.pick(True, False)]
    other = [other[i] for i in net.random.permutation(len(other))]
    result = [letter for letter in sorted({*letters, *other}) if net.pick(True, True, False)]
    result = [result[i] for i in net.random.permutation(len(result))]
    pairs = [(letters, x.name), ("".join(other), net.weight(*(extents[e] for e in other)))]
    (left, first), (right, second) = pairs if net.pick(True, False) else pairs[::-1]
    return net.op("Einsum", first, second, equation=f"{left},{right}->{''.join(result)}")


@_compute
def _recurrent(net: Network, x: Value) -> str | None:
    """A layer over the first axis: its states, or the last one."""
    if len(x.shape) != 3:
        return None
    kind, ways = net.pick(("LSTM", 4), ("GRU", 3), ("RNN", 1)), net.pick(1, 1, 2)
    (name, gates), hidden = kind, net.pick(1, 3, 4)
    direction = "bidirectional" if ways == 2 else net.pick("forward", "reverse")
    attributes = {"linear_before_reset": net.pick(0, 1)} if name == "GRU" else {}
    rows = [net.weight(ways, gates * hidden, extent) for extent in (x.shape[2], hidden)]
    rows.append(net.pick("", net.weight(ways, 2 * gates * hidden)))
    if net.pick(True, False):
        rows += ["", net.weight(ways, x.shape[1], hidden)]
    attributes |= {"direction": direction, "hidden_size": hidden}
    return net.pick(*net.op(name, x.name, *rows, outputs=2, **attributes))


@_compute
def _scatter(net: Network, x: Value) -> str | None:
    """Some rows in the place of those that are there."""
    if not x.shape:
        return None
    count = int(net.random.integers(1, x.shape[0] + 1))
    rows = net.const(net.random.permutation(x.shape[0])[:count].reshape(-1, 1))
    return net.op("ScatterND", x.name, rows, net.weight(count, *x.shape[1:]))


@_compute
def _resize(net: Network, x: Value) -> str | None:
    if len(x.shape) != 4:
        return None
    mode = net.pick("nearest", "nearest", "linear", "cubic")
    places = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    attributes: dict[str, Any] = {"coordinate_transformation_mode": net.pick(*places)}
    if mode == "nearest":
        rounding = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
        attributes["nearest_mode"] = net.pick(*rounding)
    factors = [1.0, 1.0, net.pick(1.0, 2.0, 2.0, 1.5, 3.0), net.pick(1.0, 2.0, 2.0, 0.5)]
    if net.pick(True, False):
        return net.op("Resize", x.name, "", net.const(factors), mode=mode, **attributes)
    sizes = [*x.shape[:2], x.shape[2] * net.pick(1, 2, 3), x.shape[3] * 2]
    rows = ("", "", net.const(np.array(sizes)))
    return net.op("Resize", x.name, *rows, mode=mode, **attributes)
