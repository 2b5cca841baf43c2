"""Operators that are written in others before TVM reads them, as random networks draw them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .drawn_network import Draw, Network, Value

COMPOSES: list[Draw] = []


def _composed(draw: Draw) -> Draw:
    COMPOSES.append(draw)
    return draw


@_composed
def _attention(net: Network, x: Value) -> str | None:
    """Of heads that share keys or not, masked or not: an operator since opset 23."""
    if len(x.shape) != 3 or net.opset < 23:
        return None
    batch, rows, _ = x.shape
    width, heads = net.pick(2, 4), net.pick(1, 2, 4)
    shared = net.pick(*(n for n in (1, 2, 4) if heads % n == 0))
    read = [
        net.op("MatMul", x.name, net.weight(x.shape[2], count * width))
        for count in (heads, shared, shared)
    ]
    attributes: dict[str, Any] = {"is_causal": net.pick(0, 1)}
    mask: tuple[str, ...] = ()
    if net.pick(True, False):
        shape = net.pick((rows, rows), (batch, 1, rows, rows), (1, heads, rows, rows))
        keep = net.random.random(shape) < 0.7
        keep[..., 0] = True
        mask = (net.const(net.pick(keep, np.where(keep, 0.0, -1e4))),)
    if net.pick(True, False):
        attributes["softcap"] = 2.0
    if net.pick(True, False):
        attributes["scale"] = 0.3
    attributes |= {"q_num_heads": heads, "kv_num_heads": shared}
    return net.op("Attention", *read, *mask, **attributes)


@_composed
def _norm(net: Network, x: Value) -> str | None:
    if len(x.shape) < 2:
        return None
    match net.pick("rms", "group", "lp", "variance"):
        case "rms" if net.opset >= 23:
            axis = net.pick(-1, 1)
            scale = net.positive(*x.shape[axis:])
            result = net.op("RMSNormalization", x.name, scale, axis=axis, epsilon=0.01)
        case "group" if net.opset >= 21 and len(x.shape) > 2:
            channels = x.shape[1]
            groups = net.pick(*(g for g in (1, 2, channels) if channels % g == 0))
            rows = net.positive(channels), net.weight(channels)
            kind = "GroupNormalization"
            result = net.op(kind, x.name, *rows, num_groups=groups, epsilon=0.01)
        case "variance" if len(x.shape) == 4:
            # Of one number there is no variance.
            axes = net.pick([0, 2, 3], [2, 3], [1])
            count = prod(x.shape[axis] for axis in axes)
            result = net.op("MeanVarianceNormalization", x.name, axes=axes) if count > 1 else ""
        case _:
            result = net.op("LpNormalization", x.name, axis=net.axis(x), p=net.pick(1, 2))
    if not result:
        return None
    net.state_shape(result, x.shape)
    return result


@_composed
def _largest_places(net: Network, x: Value) -> Any:
    """The largest of windows, and where they are."""
    if len(x.shape) != 4 or not x.exact:
        return None
    kernel = [net.pick(1, 2, 3), net.pick(2, 3)]
    pads = [net.pick(0, k // 2) for k in (*kernel, *kernel)]
    if any(e + pads[i] + pads[i + 2] < kernel[i] for i, e in enumerate(x.shape[2:])):
        return None
    attributes = {"kernel_shape": kernel, "strides": [1, net.pick(1, 2)], "pads": pads}
    order = net.pick(0, 0, 1)
    values, places = net.op("MaxPool", x.name, outputs=2, storage_order=order, **attributes)
    return [values, net.op("Cast", places, to=1)]


@_composed
def _columns(net: Network, x: Value) -> str | None:
    """Columns of windows of an image of three by four, summed."""
    if len(x.shape) < 2:
        return None
    block, channels = net.pick((1, 2), (2, 2), (2, 1)), net.pick(1, 2)
    windows = (4 - block[0]) * (5 - block[1])
    flat = net.op("Flatten", x.name, axis=1)
    rows, width = net.shape(flat) or (1, 1)
    size = channels * block[0] * block[1]
    columns = net.op("MatMul", flat, net.weight(width, size * windows))
    columns = net.op("Reshape", columns, net.const(np.array([rows, size, windows])))
    return net.op("Col2Im", columns, net.const(np.array([3, 4])), net.const(np.array(block)))


@_composed
def _sampled(net: Network, x: Value) -> str | None:
    """Pixels at places of which some lie outside."""
    if len(x.shape) != 4:
        return None
    grid = net.const(net.random.uniform(-1.3, 1.3, (x.shape[0], 2, 3, 2)))
    modes = ("linear", "cubic") if net.opset >= 20 else ("bilinear", "bicubic")
    attributes: dict[str, Any] = {"mode": net.pick(*modes, "nearest")}
    attributes["padding_mode"] = net.pick("zeros", "border", "reflection")
    return net.op("GridSample", x.name, grid, align_corners=net.pick(0, 1), **attributes)


@_composed
def _resized(net: Network, x: Value) -> str | None:
    if len(x.shape) != 4:
        return None
    mode = net.pick("linear", "cubic")
    attributes: dict[str, Any] = {"antialias": 1} if net.pick(True, True, False) else {}
    if not attributes or net.pick(True, False):
        attributes["exclude_outside"] = net.pick(0, 1) if mode == "cubic" else 0
    sizes = [max(1, e * net.pick(1, 2, 3) // net.pick(1, 2, 3)) for e in x.shape[2:]]
    sizes = net.const(np.array([*x.shape[:2], *sizes]))
    return net.op("Resize", x.name, "", "", sizes, mode=mode, **attributes)


@_composed
def _others(net: Network, x: Value) -> str | None:
    match net.pick("shrink", "hardmax", "gelu", "crop", "reverse", "elements", "lp", "logsum"):
        case "shrink":
            return net.op("Shrink", net.op("Add", x.name, net.const(9.0)), lambd=0.5, bias=0.25)
        case "hardmax" if x.shape and x.exact:
            return net.op("Hardmax", x.name, axis=net.axis(x))
        case "gelu" if net.opset >= 20:
            return net.op("Gelu", x.name, approximate=net.pick("none", "tanh"))
        case "crop" if x.shape:
            axis = net.axis(x)
            size = net.const(np.array([x.shape[axis] + net.pick(-1, 1, 2) or 1]))
            return net.op("CenterCropPad", x.name, size, axes=[axis])
        case "reverse" if len(x.shape) > 1:
            batch, time = net.pick((0, 1), (1, 0))
            lengths = net.random.integers(1, x.shape[time] + 1, x.shape[batch])
            lengths = net.const(lengths)
            axes = {"batch_axis": batch, "time_axis": time}
            return net.op("ReverseSequence", x.name, lengths, **axes)
        case "elements" if x.shape:
            axis = net.axis(x)
            shape = [1] * len(x.shape)
            shape[axis] = x.shape[axis]
            rows = net.random.permutation(x.shape[axis]) - net.pick(0, x.shape[axis])
            reduction = {"reduction": net.pick("none", "add", "mul", "max")}
            updates = net.weight(*shape)
            rows = net.const(rows.reshape(shape))
            return net.op("ScatterElements", x.name, rows, updates, axis=axis, **reduction)
        case "lp" if len(x.shape) == 4:
            kernel = [net.pick(1, 2), net.pick(2, 3)]
            return net.op("LpPool", x.name, kernel_shape=kernel, p=net.pick(1, 2, 3))
        case "logsum" if x.shape:
            safe = net.op("Add", net.op("Abs", x.name), net.const(0.5))
            return net.op("ReduceLogSum", safe, net.const(np.array(net.axes(x))), keepdims=0)
        case _:
            return None
