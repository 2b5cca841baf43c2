"""Read the canonical kind and attributes of Relay calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relay

from relay_passes.dialect import DialectError
from relay_passes.relay.expressions import constant_value, operator_name, static_shape
from relay_passes.same_attributes import Attrs, Shape, described_alike, ints, sliced

Reader = Callable[[relay.Call], tuple[str, Attrs]]


def kind_and_attrs(call: relay.Call) -> tuple[str, Attrs]:
    """Return the canonical kind and attributes of a call.

    An operator without an entry here keeps its Relay name and its scalar attributes, so that any
    graph can be scheduled; only rules about that operator do not apply.
    """
    name = operator_name(call)
    alike = described_alike(name, call.attrs, lambda: static_shape(call))
    if alike is not None:
        return alike
    if name in _READERS:
        return _READERS[name](call)
    return name, _scalar_attrs(call)


def _rank(call: relay.Call) -> int:
    return len(static_shape(call))


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
    is_weight = constant_value(call.args[1]) is not None
    return ("dense", {}) if is_weight else ("nn.dense", _scalar_attrs(call))


def _batch_matmul(call: relay.Call) -> tuple[str, Attrs]:
    plain = not call.attrs.transpose_a and not call.attrs.transpose_b
    return ("matmul", {}) if plain else ("nn.batch_matmul", _scalar_attrs(call))


def _pad(call: relay.Call) -> tuple[str, Attrs]:
    value = constant_value(call.args[1])
    if call.attrs.pad_mode != "constant" or value is None:
        return "nn.pad", _scalar_attrs(call)
    widths = [ints(pair) for pair in call.attrs.pad_width]
    pads = tuple(before for before, _ in widths) + tuple(after for _, after in widths)
    return "pad", {"pads": pads, "value": float(value)}


def slice_bounds(attributes: Any, rank: int) -> tuple[Shape, Shape, Shape, Shape]:
    """Return the axes (not negative), begins, ends and steps of a ``strided_slice``."""
    begins, ends = ints(attributes.begin), ints(attributes.end)
    steps = ints(attributes.strides or ())
    # TVM takes the step 1 for axes without one.
    steps += (1,) * (len(begins) - len(steps))
    axes = range(len(begins)) if attributes.axes is None else ints(attributes.axes)
    return tuple(axis % rank for axis in axes), begins, ends, steps


def _slice(call: relay.Call) -> tuple[str, Attrs]:
    a, shape = call.attrs, static_shape(call.args[0])
    axes, begins, ends, steps = slice_bounds(a, len(shape))
    if a.slice_mode == "size":
        ends = tuple(
            begin + size if size >= 0 else shape[axis]
            for axis, begin, size in zip(axes, begins, ends, strict=True)
        )
        steps = (1,) * len(begins)
    return sliced(shape, axes, begins, ends, steps)


def _split(call: relay.Call) -> tuple[str, Attrs]:
    axis = int(call.attrs.axis) % len(static_shape(call.args[0]))
    fields = call.checked_type.fields
    return "split", {"axis": axis, "sizes": tuple(int(field.shape[axis]) for field in fields)}


def _clip(call: relay.Call) -> tuple[str, Attrs]:
    return "clip", {"min": float(call.attrs.a_min), "max": float(call.attrs.a_max)}


def _lrn(call: relay.Call) -> tuple[str, Attrs]:
    a = call.attrs
    if int(a.axis) != 1:
        return "nn.lrn", _scalar_attrs(call)
    # ONNX has these as float32, but the importer's default is no float32 number.
    factors: Attrs = {key: float(np.float32(a[key])) for key in ("alpha", "beta", "bias")}
    return "lrn", {"size": int(a.size), **factors}


def _cast(call: relay.Call) -> tuple[str, Attrs]:
    return "cast", {"to": str(call.checked_type.dtype)}


def _take(call: relay.Call) -> tuple[str, Attrs]:
    """Read a take with constant indices in range as a gather.

    Out of range Relay's take clips, wraps or is undefined.
    """
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


def _gather(call: relay.Call) -> tuple[str, Attrs]:
    """Read Relay's gather, which takes single elements, as ``gather_elements``."""
    return "gather_elements", _scalar_attrs(call)


_READERS: dict[str, Reader] = {
    "nn.global_avg_pool2d": _global_mean,
    "nn.adaptive_avg_pool2d": _global_mean,
    "mean": _mean,
    "nn.dense": _dense,
    "nn.batch_matmul": _batch_matmul,
    "nn.pad": _pad,
    "strided_slice": _slice,
    "split": _split,
    "clip": _clip,
    "nn.lrn": _lrn,
    "nn.layer_norm": _layer_norm,
    "cast": _cast,
    "take": _take,
    "gather": _gather,
}


def _scalar_attrs(call: relay.Call) -> Attrs:
    if call.attrs is None:
        return {}
    if not isinstance(call.attrs, tvm.ir.Attrs):
        raise DialectError(
            f"TVM {tvm.__version__} does not say the attributes of {operator_name(call)}: leave "
            "this operator out of the model"
        )
    attrs: Attrs = {}
    for name in sorted(call.attrs.keys()):
        value = call.attrs[name]
        plain = isinstance(value, bool | int | float | str)
        if value is not None:
            attrs[name] = value if plain else str(value)
    return attrs
