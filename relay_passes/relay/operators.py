"""Relay operators in the vocabulary of :mod:`tvm_ios.operators`: kind and attributes of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relay

from relay_passes.relay.expressions import constant_value, ints, operator_name, static_shape
from tvm_ios.graph import AttrValue

Attrs = dict[str, AttrValue]
Reader = Callable[[relay.Call], tuple[str, Attrs]]

_SAME_NAME = {
    "nn.relu": "relu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "exp": "exp",
    "sqrt": "sqrt",
    "erf": "erf",
    "negative": "neg",
    "abs": "abs",
    "add": "add",
    "subtract": "subtract",
    "multiply": "multiply",
    "divide": "divide",
    "power": "pow",
    "maximum": "max",
    "minimum": "min",
}


def kind_and_attrs(call: relay.Call) -> tuple[str, Attrs]:
    """Canonical kind and attributes of a call.

    An operator without an entry here keeps its Relay name and its scalar attributes, so that
    any graph can be scheduled; only rules about that operator do not apply.
    """
    name = operator_name(call)
    if name in _SAME_NAME:
        return _SAME_NAME[name], {}
    if name in _READERS:
        return _READERS[name](call)
    return name, _scalar_attrs(call)


def _pads(values: Any) -> tuple[int, ...]:
    pads = ints(values)
    return pads if len(pads) == 4 else pads * (4 // len(pads))


def _rank(call: relay.Call) -> int:
    return len(static_shape(call))


def _convolution(kind: str, kernel_layout: str) -> Reader:
    def read(call: relay.Call) -> tuple[str, Attrs]:
        a = call.attrs
        if a.data_layout != "NCHW" or a.kernel_layout != kernel_layout:
            return f"nn.{kind}", _scalar_attrs(call)
        attrs: Attrs = {
            "strides": ints(a.strides),
            "pads": _pads(a.padding),
            "dilations": ints(a.dilation),
            "group": int(a.groups),
        }
        if kind == "conv2d_transpose":
            attrs["output_padding"] = ints(a.output_padding)
        return kind, attrs

    return read


def _pool(kind: str) -> Reader:
    def read(call: relay.Call) -> tuple[str, Attrs]:
        a = call.attrs
        dilations = ints(a.dilation)
        if a.layout != "NCHW" or (kind == "avg_pool2d" and dilations != (1, 1)):
            return f"nn.{kind}", _scalar_attrs(call)
        attrs: Attrs = {
            "kernel": ints(a.pool_size),
            "strides": ints(a.strides),
            "pads": _pads(a.padding),
            "ceil_mode": bool(a.ceil_mode),
        }
        if kind == "max_pool2d":
            attrs["dilations"] = dilations
        else:
            attrs["count_include_pad"] = bool(a.count_include_pad)
        return kind, attrs

    return read


def _global_mean(call: relay.Call) -> tuple[str, Attrs]:
    if call.attrs.layout != "NCHW" or static_shape(call)[2:] != (1, 1):
        return operator_name(call), _scalar_attrs(call)
    return "mean", {"axes": (2, 3), "keepdims": True}


def _mean(call: relay.Call) -> tuple[str, Attrs]:
    a, rank = call.attrs, len(static_shape(call.args[0]))
    axes = {axis % rank for axis in (range(rank) if a.axis is None else ints(a.axis))}
    if a.exclude:
        axes = set(range(rank)) - axes
    return "mean", {"axes": tuple(sorted(axes)), "keepdims": bool(a.keepdims)}


def _dense(call: relay.Call) -> tuple[str, Attrs]:
    known = constant_value(call.args[1]) is not None
    return ("dense", {}) if known else ("nn.dense", _scalar_attrs(call))


def _batch_matmul(call: relay.Call) -> tuple[str, Attrs]:
    plain = not call.attrs.transpose_a and not call.attrs.transpose_b
    return ("matmul", {}) if plain else ("nn.batch_matmul", _scalar_attrs(call))


def _along(kind: str) -> Reader:
    def read(call: relay.Call) -> tuple[str, Attrs]:
        return kind, {"axis": int(call.attrs.axis) % _rank(call)}

    return read


def _reshape(call: relay.Call) -> tuple[str, Attrs]:
    return "reshape", {"shape": static_shape(call)}


def _transpose(call: relay.Call) -> tuple[str, Attrs]:
    axes, rank = call.attrs.axes, _rank(call)
    order = range(rank)[::-1] if axes is None else (axis % rank for axis in ints(axes))
    return "transpose", {"perm": tuple(order)}


def _pad(call: relay.Call) -> tuple[str, Attrs]:
    value = constant_value(call.args[1])
    if call.attrs.pad_mode != "constant" or value is None:
        return "nn.pad", _scalar_attrs(call)
    widths = [ints(pair) for pair in call.attrs.pad_width]
    pads = tuple(before for before, _ in widths) + tuple(after for _, after in widths)
    return "pad", {"pads": pads, "value": float(value)}


def _slice(call: relay.Call) -> tuple[str, Attrs]:
    a, shape = call.attrs, static_shape(call.args[0])
    begins, ends = ints(a.begin), ints(a.end)
    steps = ints(a.strides) if a.strides is not None else (1,)
    steps = steps * len(begins) if len(steps) == 1 else steps
    axes = range(len(begins)) if a.axes is None else (axis % len(shape) for axis in ints(a.axes))
    if a.slice_mode == "size":
        ends = tuple(
            begin + size if size >= 0 else shape[axis]
            for axis, begin, size in zip(axes, begins, ends, strict=True)
        )
        steps = (1,) * len(begins)
    rows: list[tuple[int, int, int, int]] = []
    for axis, begin, end, step in zip(axes, begins, ends, steps, strict=True):
        start, stop, _ = slice(begin, end, step).indices(shape[axis])
        if (start, stop, step) != (0, shape[axis], 1):
            rows.append((axis, start, stop, step))
    rows.sort()
    names = ("axes", "starts", "ends", "steps")
    return "slice", {name: tuple(row[i] for row in rows) for i, name in enumerate(names)}


def _split(call: relay.Call) -> tuple[str, Attrs]:
    axis = int(call.attrs.axis) % len(static_shape(call.args[0]))
    fields = call.checked_type.fields
    return "split", {"axis": axis, "sizes": tuple(int(field.shape[axis]) for field in fields)}


def _clip(call: relay.Call) -> tuple[str, Attrs]:
    return "clip", {"min": float(call.attrs.a_min), "max": float(call.attrs.a_max)}


def _leaky_relu(call: relay.Call) -> tuple[str, Attrs]:
    return "leaky_relu", {"alpha": float(call.attrs.alpha)}


def _lrn(call: relay.Call) -> tuple[str, Attrs]:
    a = call.attrs
    if int(a.axis) != 1:
        return "nn.lrn", _scalar_attrs(call)
    factors: Attrs = {"alpha": float(a.alpha), "beta": float(a.beta), "bias": float(a.bias)}
    return "lrn", {"size": int(a.size), **factors}


def _cast(call: relay.Call) -> tuple[str, Attrs]:
    return "cast", {"to": str(call.checked_type.dtype)}


def _resize2d(call: relay.Call) -> tuple[str, Attrs]:
    a = call.attrs
    if a.layout != "NCHW" or a.coordinate_transformation_mode == "tf_crop_and_resize":
        return "image.resize2d", _scalar_attrs(call)
    mode = str(a.method).removesuffix("_neighbor")
    attrs: Attrs = {
        "size": static_shape(call)[2:],
        "mode": mode,
        "coordinates": str(a.coordinate_transformation_mode),
    }
    if mode == "nearest":
        attrs["rounding"] = str(a.rounding_method)
    elif mode == "cubic":
        attrs["alpha"] = float(a.cubic_alpha)
    return "resize2d", attrs


def _take(call: relay.Call) -> tuple[str, Attrs]:
    """In range, Relay's take is a gather; elsewhere it clips or wraps or does as it likes."""
    a, shape, indices = call.attrs, static_shape(call.args[0]), constant_value(call.args[1])
    if a.axis is None or int(a.batch_dims) != 0 or indices is None:
        return "take", _scalar_attrs(call)
    axis = int(a.axis) % len(shape)
    if not ((indices >= 0) & (indices < shape[axis])).all():
        return "take", _scalar_attrs(call)
    return "gather", {"axis": axis}


def _layer_norm(call: relay.Call) -> tuple[str, Attrs]:
    a, rank = call.attrs, _rank(call)
    if not (a.center and a.scale):
        return "nn.layer_norm", _scalar_attrs(call)
    return "layer_norm", {
        "axes": (int(a.axis) % rank,),
        "epsilon": float(np.float32(a.epsilon)),
    }


_READERS: dict[str, Reader] = {
    "nn.conv2d": _convolution("conv2d", "OIHW"),
    "nn.conv2d_transpose": _convolution("conv2d_transpose", "IOHW"),
    "image.resize2d": _resize2d,
    "nn.max_pool2d": _pool("max_pool2d"),
    "nn.avg_pool2d": _pool("avg_pool2d"),
    "nn.global_avg_pool2d": _global_mean,
    "nn.adaptive_avg_pool2d": _global_mean,
    "mean": _mean,
    "nn.dense": _dense,
    "nn.batch_matmul": _batch_matmul,
    "concatenate": _along("concat"),
    "nn.softmax": _along("softmax"),
    "reshape": _reshape,
    "expand_dims": _reshape,
    "squeeze": _reshape,
    "nn.batch_flatten": _reshape,
    "transpose": _transpose,
    "nn.pad": _pad,
    "strided_slice": _slice,
    "split": _split,
    "clip": _clip,
    "nn.leaky_relu": _leaky_relu,
    "nn.lrn": _lrn,
    "nn.layer_norm": _layer_norm,
    "cast": _cast,
    "take": _take,
}


def _scalar_attrs(call: relay.Call) -> Attrs:
    if call.attrs is None:
        return {}
    found: Attrs = {}
    for name in sorted(call.attrs.keys()):
        value = call.attrs[name]
        plain = isinstance(value, bool | int | float | str)
        if value is not None:
            found[name] = value if plain else str(value)
    return found
