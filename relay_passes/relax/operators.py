"""Relax operators in the vocabulary of :mod:`tvm_ios.operators`: kind and attributes of a call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from relay_passes.relax.bindings import operator_name, static_shape
from tvm_ios.graph import AttrValue

Attrs = dict[str, AttrValue]

_SAME_NAME = {
    "relax.nn.relu": "relu",
    "relax.sigmoid": "sigmoid",
    "relax.tanh": "tanh",
    "relax.exp": "exp",
    "relax.sqrt": "sqrt",
    "relax.erf": "erf",
    "relax.negative": "neg",
    "relax.abs": "abs",
    "relax.nn.gelu": "gelu",
    "relax.nn.silu": "silu",
    "relax.add": "add",
    "relax.subtract": "subtract",
    "relax.multiply": "multiply",
    "relax.divide": "divide",
    "relax.power": "pow",
    "relax.maximum": "max",
    "relax.minimum": "min",
}


def kind_and_attrs(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    """Canonical kind and attributes of a call whose result is ``result``.

    An operator without an entry here keeps its Relax name and its scalar attributes, so that
    any graph can be scheduled; only rules about that operator do not apply.
    """
    name = operator_name(call)
    if name in _SAME_NAME:
        return _SAME_NAME[name], {}
    if name in _READERS:
        return _READERS[name](call, result)
    if name == "relax.call_tir":
        return f"tir.{call.args[0].name_hint}", {}
    return name.removeprefix("relax."), _scalar_attrs(call)


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def _pads(values: Any) -> tuple[int, ...]:
    pads = _ints(values)
    return pads if len(pads) == 4 else pads * (4 // len(pads))


def _axis(axis: Any, rank: int) -> int:
    return int(axis) % rank


def _convolution(kind: str, kernel_layout: str) -> Callable[[relax.Call, Any], tuple[str, Attrs]]:
    def read(call: relax.Call, result: Any) -> tuple[str, Attrs]:
        a = call.attrs
        if a.data_layout != "NCHW" or a.kernel_layout != kernel_layout:
            return f"nn.{kind}", _scalar_attrs(call)
        attrs: Attrs = {
            "strides": _ints(a.strides),
            "pads": _pads(a.padding),
            "dilations": _ints(a.dilation),
            "group": int(a.groups),
        }
        if kind == "conv2d_transpose":
            attrs["output_padding"] = _ints(a.output_padding)
        return kind, attrs

    return read


def _resize2d(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    a = call.attrs
    if a.layout != "NCHW" or a.coordinate_transformation_mode == "tf_crop_and_resize":
        return "image.resize2d", _scalar_attrs(call)
    mode = str(a.method).removesuffix("_neighbor")
    attrs: Attrs = {
        "size": static_shape(result)[2:],
        "mode": mode,
        "coordinates": str(a.coordinate_transformation_mode),
    }
    if mode == "nearest":
        attrs["rounding"] = str(a.rounding_method)
    elif mode == "cubic":
        attrs["alpha"] = float(a.cubic_alpha)
    return "resize2d", attrs


def _pool(kind: str) -> Callable[[relax.Call, Any], tuple[str, Attrs]]:
    def read(call: relax.Call, result: Any) -> tuple[str, Attrs]:
        a = call.attrs
        if a.layout != "NCHW":
            return call.op.name.removeprefix("relax."), _scalar_attrs(call)
        attrs: Attrs = {
            "kernel": _ints(a.pool_size),
            "strides": _ints(a.strides),
            "pads": _pads(a.padding),
            "ceil_mode": bool(a.ceil_mode),
        }
        if kind == "max_pool2d":
            attrs["dilations"] = _ints(a.dilation)
        else:
            attrs["count_include_pad"] = bool(a.count_include_pad)
        return kind, attrs

    return read


def _mean(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    rank = len(static_shape(call.args[0]))
    axes = range(rank) if call.attrs.axis is None else call.attrs.axis
    ordered = tuple(sorted(_axis(axis, rank) for axis in axes))
    return "mean", {"axes": ordered, "keepdims": bool(call.attrs.keepdims)}


def _matmul(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    weight = call.args[1]
    constant = not isinstance(weight, relax.Var)
    return ("dense" if constant and len(static_shape(weight)) == 2 else "matmul"), {}


def _concat(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    return "concat", {"axis": _axis(call.attrs.axis, len(static_shape(result)))}


def _softmax(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    return "softmax", {"axis": _axis(call.attrs.axis, len(static_shape(result)))}


def _reshape(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    return "reshape", {"shape": static_shape(result)}


def _transpose(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    rank = len(static_shape(result))
    axes = call.attrs.axes
    return "transpose", {"perm": tuple(reversed(range(rank))) if axes is None else _ints(axes)}


def _pad(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    if call.attrs.pad_mode != "constant":
        return "nn.pad", _scalar_attrs(call)
    widths = _ints(call.attrs.pad_width)
    return "pad", {"pads": widths[::2] + widths[1::2], "value": float(call.attrs.pad_value)}


def _slice(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    shape = static_shape(call.args[0])
    steps = _tuple_ints(call.args[4]) if len(call.args) > 4 else None
    axes = tuple(_axis(axis, len(shape)) for axis in _tuple_ints(call.args[1]))
    starts: list[int] = []
    ends: list[int] = []
    for axis, start, end in zip(axes, *map(_tuple_ints, call.args[2:4]), strict=True):
        extent = shape[axis]
        starts.append(min(start + extent if start < 0 else start, extent))
        ends.append(min(end + extent if end < 0 else end, extent))
    return "slice", {
        "starts": tuple(starts),
        "ends": tuple(ends),
        "axes": axes,
        "steps": steps or (1,) * len(axes),
    }


def _tuple_ints(expression: Any) -> tuple[int, ...]:
    fields = expression.fields if hasattr(expression, "fields") else expression.values
    return tuple(int(getattr(field, "value", field)) for field in fields)


def _split(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    axis = _axis(call.attrs.axis, len(static_shape(call.args[0])))
    sizes = tuple(int(field.shape[axis]) for field in result.ty.fields)
    return "split", {"axis": axis, "sizes": sizes}


def _clip(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    low, high = (float(getattr(argument, "value", argument)) for argument in call.args[1:3])
    return "clip", {"min": low, "max": high}


def _leaky_relu(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    return "leaky_relu", {"alpha": float(call.attrs.alpha)}


def _cast(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    return "cast", {"to": str(result.ty.dtype)}


def _take(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    if call.attrs.axis is None or call.attrs.mode == "clip":
        return "take", _scalar_attrs(call)
    return "gather", {"axis": _axis(call.attrs.axis, len(static_shape(call.args[0])))}


def _layer_norm(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    rank = len(static_shape(result))
    axes = tuple(sorted(_axis(axis, rank) for axis in call.attrs.axes))
    return "layer_norm", {"axes": axes, "epsilon": float(np.float32(call.attrs.epsilon))}


_READERS: dict[str, Callable[[relax.Call, Any], tuple[str, Attrs]]] = {
    "relax.nn.conv2d": _convolution("conv2d", "OIHW"),
    "relax.nn.conv2d_transpose": _convolution("conv2d_transpose", "IOHW"),
    "relax.image.resize2d": _resize2d,
    "relax.nn.max_pool2d": _pool("max_pool2d"),
    "relax.nn.avg_pool2d": _pool("avg_pool2d"),
    "relax.mean": _mean,
    "relax.matmul": _matmul,
    "relax.concat": _concat,
    "relax.nn.softmax": _softmax,
    "relax.reshape": _reshape,
    "relax.expand_dims": _reshape,
    "relax.squeeze": _reshape,
    "relax.flatten": _reshape,
    "relax.nn.batch_flatten": _reshape,
    "relax.permute_dims": _transpose,
    "relax.nn.pad": _pad,
    "relax.strided_slice": _slice,
    "relax.split": _split,
    "relax.clip": _clip,
    "relax.nn.leakyrelu": _leaky_relu,
    "relax.astype": _cast,
    "relax.take": _take,
    "relax.nn.layer_norm": _layer_norm,
}


def _scalar_attrs(call: relax.Call) -> Attrs:
    if call.attrs is None:
        return {}
    found: Attrs = {}
    for item in type(call.attrs).__tvm_ffi_type_info__.fields:
        value = getattr(call.attrs, item.name)
        if isinstance(value, bool | int | float | str):
            found[item.name] = value
        elif value is not None and not isinstance(value, str):
            found[item.name] = str(value)
    return found
