"""Convolutions and products with constant weights, as contractions."""

from __future__ import annotations

from typing import Any

from runtime_ext.kernels.cut import UNCUT
from runtime_ext.kernels.expression import ACC, Access
from runtime_ext.kernels.relax_function import pair, static_shape
from runtime_ext.kernels.spec import Contraction, Pooling, Window
from runtime_ext.units.kernel_draft import IMAGE, PLAIN
from runtime_ext.units.rules import attention
from runtime_ext.units.rules.reading import read_input
from runtime_ext.units.storing import in_memory
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import four
from tvm_ios.program.constant_transform import ParamTransform, phase_taps

#: A contraction activates an input again for each kernel position and block of channels; up to this
#: many channels that costs less than storing the activated input.
_RECOMPUTE = 64


def convolution(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.nn.conv2d with constant weights; return False for others."""
    attrs = call.attrs
    weight = unit.constant(call.args[1])
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    if weight < 0 or layouts != ("NCHW", "OIHW", "NCHW"):
        return False
    out, per_group, kh, kw = static_shape(call.args[1].ty)
    groups = int(attrs.groups)
    value = unit.value(call.args[0])
    n, channels, _, _ = value.shape
    depthwise = groups == channels == out and per_group == 1 and groups > 1
    data, prologue, pads, inner = read_input(unit, value, depthwise or kh * kw * out <= _RECOMPUTE)
    padding = [int(p) for p in attrs.padding]
    window = Window(
        input=(inner[2], inner[3]),
        output=pair(static_shape(var.ty)[2:]),
        kernel=(kh, kw),
        strides=pair(attrs.strides),
        pads=(padding[0] + pads[0], padding[1] + pads[1]),
        dilations=pair(attrs.dilation),
    )
    packed = unit.weight(call.args[1], (out, per_group, kh, kw))
    anchor: Contraction | Pooling
    if depthwise:
        storage = unit.storages[packed]
        storage.transform = ParamTransform(
            (("transpose", (2, 3, 0, 1)), ("reshape", (kh, kw, out)))
        )
        storage.shape = (kh, kw, out)
        anchor = Pooling((), "depthwise", n, window, out, data, prologue, packed, ())
    else:
        parts = (out,) if groups == 1 else (out // groups,)
        anchor = Contraction(
            (), n, window, per_group, groups, data, prologue, packed, parts, UNCUT, ()
        )
    unit.bind_anchor(var, anchor, IMAGE)
    return True


def transposed_convolution(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.nn.conv2d_transpose as a convolution that computes all phases of a stride."""
    attrs = call.attrs
    weight = unit.constant(call.args[1])
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    if weight < 0 or layouts != ("NCHW", "IOHW", "NCHW"):
        return False
    result, strides = static_shape(var.ty), pair(attrs.strides)
    whole = all(extent % s == 0 for extent, s in zip(result[2:], strides, strict=True))
    if int(attrs.groups) != 1 or pair(attrs.dilation) != (1, 1) or not whole:
        return False
    shape = static_shape(call.args[1].ty)
    padding = pair(tuple(attrs.padding)[:2])
    transform = ParamTransform((("phases", strides, padding),))
    physical = transform.shape(shape)
    first = [phase_taps(*axis)[0] for axis in zip(shape[2:], strides, padding, strict=True)]
    value = unit.value(call.args[0])
    data, prologue, pads, inner = read_input(unit, value, False)
    window = Window(
        input=(inner[2], inner[3]),
        output=(result[2] // strides[0], result[3] // strides[1]),
        kernel=pair(physical[2:]),
        strides=(1, 1),
        pads=(pads[0] - first[0], pads[1] - first[1]),
        dilations=(1, 1),
    )
    packed = unit.weight(call.args[1], physical)
    unit.storages[packed].transform = transform
    anchor = Contraction(
        (), result[0], window, shape[0], 1, data, prologue, packed, physical[:1], UNCUT, ()
    )
    unit.bind_anchor(var, anchor, IMAGE, strides)
    return True


def product(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.matmul with a constant matrix, or of data with data."""
    weight = unit.constant(call.args[1])
    shape = static_shape(call.args[1].ty)
    value = unit.value(call.args[0])
    if weight < 0 or len(shape) != 2 or not 2 <= len(value.shape) <= 4:
        return attention.product(unit, var, call)
    stored = in_memory(unit, value)
    extents = four(value.shape, 1)
    # Each row is a pixel; matrices of one row are the pixels of one matrix.
    axes = PLAIN if extents[2] != 1 else (0, 2, 1, 3)
    pixels = (extents[axes[1]], extents[axes[2]])
    window = Window(pixels, pixels, (1, 1), (1, 1), (0, 0), (1, 1))
    data = Access(stored.storage, stored.offset, four(stored.strides, 0))
    packed = unit.weight(call.args[1], shape)
    anchor = Contraction(
        (), extents[0], window, extents[3], 1, data, ACC, packed, (shape[1],), UNCUT, ()
    )
    unit.bind_anchor(var, anchor, axes)
    return True
