"""Pools and means over windows of pixels, over all pixels, and over neighbouring channels."""

from __future__ import annotations

from typing import Any

from runtime_ext.kernels.expression import ACC, Expr
from runtime_ext.kernels.relax_function import pair, static_shape
from runtime_ext.kernels.spec import Mean, Pooling, Window
from runtime_ext.units.kernel_draft import IMAGE
from runtime_ext.units.rules import views
from runtime_ext.units.rules.reading import read_input
from runtime_ext.units.storing import in_memory
from runtime_ext.units.unit_draft import UnitDraft
from runtime_ext.units.values import Lazy, Padded, Pending, Stored, as_expression


def pool(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.nn.max_pool2d or relax.nn.avg_pool2d; return False if unsupported."""
    attrs = call.attrs
    if (str(attrs.layout), str(attrs.out_layout)) != ("NCHW", "NCHW"):
        return False
    kind = "max" if call.op.name == "relax.nn.max_pool2d" else "mean"
    value = unit.value(call.args[0])
    if kind == "max" and isinstance(value, Padded):
        value = in_memory(unit, value)
    padding = [int(p) for p in attrs.padding]
    kernel = pair(attrs.pool_size)
    if (
        kernel == (1, 1)
        and not any(padding)
        and views.subsample(unit, value, pair(attrs.strides), var)
    ):
        return True
    data, prologue, pads, inner = read_input(unit, value, True)
    output = static_shape(var.ty)[2:]
    # With ceil_mode the last window may begin beyond the padding; TVM's divisor is its own.
    extents_read = [
        (o - 1) * s + (k - 1) * d + 1
        for o, s, k, d in zip(
            output, pair(attrs.strides), kernel, pair(attrs.dilation), strict=True
        )
    ]
    overhang = [
        r > v + padding[i] + padding[i + 2]
        for i, (r, v) in enumerate(zip(extents_read, value.shape[2:], strict=True))
    ]
    window = Window(
        input=(inner[2], inner[3]),
        output=(output[0], output[1]),
        kernel=kernel,
        strides=pair(attrs.strides),
        pads=(padding[0] + pads[0], padding[1] + pads[1]),
        dilations=pair(attrs.dilation),
    )
    scale: Expr | None = None
    if kind == "mean":
        border = any(padding) or any(overhang)
        if any(overhang) if attrs.count_include_pad else border and any(pads):
            return False
        if attrs.count_include_pad or not border:
            kind, scale = "sum", ("const", float(kernel[0] * kernel[1]))
    anchor = Pooling((), kind, value.shape[0], window, value.shape[1], data, prologue, None, ())
    unit.bind_anchor(var, anchor, IMAGE)
    if scale is not None:
        pending = unit.value(var)
        assert isinstance(pending, Pending)
        pending.expr = ("div", ACC, scale)
    return True


def spatial_mean(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.mean over rows and columns, or the equivalent adaptive pooling."""
    value = unit.value(call.args[0])
    if call.op.name == "relax.nn.adaptive_avg_pool2d":
        if static_shape(var.ty)[2:] != (1, 1) or str(call.attrs.layout) != "NCHW":
            return False
    else:
        axes = call.attrs.axis
        if axes is None or len(value.shape) != 4:
            return False
        if sorted(int(a) % 4 for a in axes) != [2, 3] or not call.attrs.keepdims:
            return False
    if isinstance(value, Padded):
        value = in_memory(unit, value)
    data, prologue, _, _ = read_input(unit, value, True)
    n, c, h, w = value.shape
    unit.bind_anchor(var, Mean((), n, (h, w), c, data, prologue, ()), IMAGE)
    return True


def channel_mean(unit: UnitDraft, var: Any, call: Any) -> bool:
    """Plan relax.nn.avg_pool3d over channels only, as local response normalisation uses it."""
    attrs = call.attrs
    value = unit.value(call.args[0])
    size = int(attrs.pool_size[0])
    pads = [int(p) for p in attrs.padding]
    shape = value.shape
    plain = (
        [int(p) for p in attrs.pool_size[1:]] == [1, 1]
        and all(int(x) == 1 for x in (*attrs.strides, *attrs.dilation))
        and pads[1:3] == pads[4:6] == [0, 0]
        and pads[0] + pads[3] == size - 1
        and bool(attrs.count_include_pad)
        and shape[1] == 1
        and str(attrs.layout) == "NCDHW"
    )
    if not plain or not isinstance(value, (Lazy, Stored)):
        return False
    image = (shape[0], *shape[2:])
    if isinstance(value, Stored):
        strides = (value.strides[0], *value.strides[2:])
        value = as_expression(Stored(value.storage, image, strides, value.offset))
    inner = value.expr
    total: Expr = ("div", ("window", inner, pads[0], pads[3], shape[2]), ("const", float(size)))
    unit.bind(var, Lazy(total, shape))
    return True
