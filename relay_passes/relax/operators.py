"""Read the canonical kind and attributes of Relax calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from relay_passes.relax.expressions import operator_name, static_shape
from relay_passes.same_attributes import Attrs, described_alike, ints, sliced
from runtime_ext.kernels.recurrence_operator import NAME as RECURRENCE
from runtime_ext.kernels.recurrence_operator import Recurrent
from runtime_ext.kernels.relax_function import attributes_of


def kind_and_attrs(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    """Return the canonical kind and attributes of a call whose result is ``result``.

    An operator without an entry here keeps its Relax name and its scalar attributes, so that any
    graph can be scheduled; only rules about that operator do not apply.
    """
    name = operator_name(call).removeprefix("relax.")
    if name == RECURRENCE:
        return "recurrence", Recurrent.of(call).attributes()
    alike = described_alike(name, call.attrs, lambda: static_shape(result))
    if alike is not None:
        return alike
    if name in _READERS:
        return _READERS[name](call, result)
    if name == "call_tir":
        return f"tir.{call.args[0].name_hint}", {}
    return name, _scalar_attrs(call)


def _axis(axis: Any, rank: int) -> int:
    return int(axis) % rank


def _mean(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    rank = len(static_shape(call.args[0]))
    axes = range(rank) if call.attrs.axis is None else call.attrs.axis
    ordered = tuple(sorted(_axis(axis, rank) for axis in axes))
    return "mean", {"axes": ordered, "keepdims": bool(call.attrs.keepdims)}


def _matmul(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    weight = call.args[1]
    constant = not isinstance(weight, relax.Var)
    return ("dense" if constant and len(static_shape(weight)) == 2 else "matmul"), {}


def _pad(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    if call.attrs.pad_mode != "constant":
        return "nn.pad", _scalar_attrs(call)
    widths = ints(call.attrs.pad_width)
    return "pad", {"pads": widths[::2] + widths[1::2], "value": float(call.attrs.pad_value)}


def _slice(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    shape = static_shape(call.args[0])
    axes = tuple(_axis(axis, len(shape)) for axis in tuple_ints(call.args[1]))
    steps = tuple_ints(call.args[4]) if len(call.args) > 4 else (1,) * len(axes)
    starts, ends = (tuple_ints(argument) for argument in call.args[2:4])
    return sliced(shape, axes, starts, ends, steps)


def tuple_ints(expression: Any) -> tuple[int, ...]:
    """Return the numbers in a tuple or shape that is an argument of a call."""
    fields = expression.fields if hasattr(expression, "fields") else expression.values
    return tuple(int(getattr(field, "value", field)) for field in fields)


def _split(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    axis = _axis(call.attrs.axis, len(static_shape(call.args[0])))
    sizes = tuple(int(field.shape[axis]) for field in result.ty.fields)
    return "split", {"axis": axis, "sizes": sizes}


def _clip(call: relax.Call, result: Any) -> tuple[str, Attrs]:
    low, high = (float(getattr(argument, "value", argument)) for argument in call.args[1:3])
    return "clip", {"min": low, "max": high}


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
    "mean": _mean,
    "matmul": _matmul,
    "nn.pad": _pad,
    "strided_slice": _slice,
    "split": _split,
    "clip": _clip,
    "astype": _cast,
    "take": _take,
    "nn.layer_norm": _layer_norm,
}


def _scalar_attrs(call: relax.Call) -> Attrs:
    return {
        name: value if isinstance(value, bool | int | float | str) else str(value)
        for name, value in attributes_of(call).items()
        if value is not None
    }
