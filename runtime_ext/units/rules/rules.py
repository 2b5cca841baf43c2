"""Which kernel an operator becomes: one rule an operator, and TVM's own code for the rest."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

from runtime_ext.kernels.expression import ACC, Access, Expr
from runtime_ext.kernels.spec import (
    Blocking,
    Contraction,
    Mean,
    Pooling,
    Window,
)
from runtime_ext.units.draft import IMAGE, PLAIN
from runtime_ext.units.relax_function import static_shape
from runtime_ext.units.rules import attention, shuffle, views
from runtime_ext.units.rules.reading import read_input
from runtime_ext.units.rules.resize import resize
from runtime_ext.units.values import (
    Lazy,
    Padded,
    Pending,
    Stored,
    access,
    is_row_major,
)
from tvm_ios.program.constant_transform import ParamTransform, phase_taps

if TYPE_CHECKING:
    from runtime_ext.units.planner import Planner

#: A contraction activates an input again for every kernel position and block of channels; up to
#: this many channels that costs less than storing the activated input.
_RECOMPUTE = 64
_LATER = Blocking(1, 1)


def convolution(planner: Planner, var: Any, call: Any) -> bool:
    """relax.nn.conv2d with constant weights."""
    attrs = call.attrs
    weight = planner.constant(call.args[1])
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    if weight < 0 or layouts != ("NCHW", "OIHW", "NCHW"):
        return False
    out, per_group, kh, kw = static_shape(call.args[1].ty)
    groups = int(attrs.groups)
    value = planner.value(call.args[0])
    n, channels, _, _ = value.shape
    depthwise = groups == channels == out and per_group == 1 and groups > 1
    data, prologue, pads, inner = read_input(
        planner, value, depthwise or kh * kw * out <= _RECOMPUTE
    )
    padding = [int(p) for p in attrs.padding]
    window = Window(
        input=(inner[2], inner[3]),
        output=_pair(static_shape(var.ty)[2:]),
        kernel=(kh, kw),
        strides=_pair(attrs.strides),
        pads=(padding[0] + pads[0], padding[1] + pads[1]),
        dilations=_pair(attrs.dilation),
    )
    packed = planner.weight(call.args[1], (out, per_group, kh, kw))
    anchor: Contraction | Pooling
    if depthwise:
        storage = planner.storages[packed]
        storage.transform = ParamTransform(
            (("transpose", (2, 3, 0, 1)), ("reshape", (kh, kw, out)))
        )
        storage.shape = (kh, kw, out)
        anchor = Pooling((), "depthwise", n, window, out, data, prologue, packed, ())
    else:
        parts = (out,) if groups == 1 else (out // groups,)
        anchor = Contraction(
            (), n, window, per_group, groups, data, prologue, packed, parts, _LATER, ()
        )
    planner.bind_anchor(var, anchor, IMAGE)
    return True


def transposed_convolution(planner: Planner, var: Any, call: Any) -> bool:
    """relax.nn.conv2d_transpose: a convolution that makes all phases of a stride at once."""
    attrs = call.attrs
    weight = planner.constant(call.args[1])
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout))
    if weight < 0 or layouts != ("NCHW", "IOHW", "NCHW"):
        return False
    result, strides = static_shape(var.ty), _pair(attrs.strides)
    whole = all(extent % s == 0 for extent, s in zip(result[2:], strides, strict=True))
    if int(attrs.groups) != 1 or _pair(attrs.dilation) != (1, 1) or not whole:
        return False
    shape = static_shape(call.args[1].ty)
    padding = _pair(tuple(attrs.padding)[:2])
    transform = ParamTransform((("phases", strides, padding),))
    physical = transform.shape(shape)
    first = [phase_taps(*axis)[0] for axis in zip(shape[2:], strides, padding, strict=True)]
    value = planner.value(call.args[0])
    data, prologue, pads, inner = read_input(planner, value, False)
    window = Window(
        input=(inner[2], inner[3]),
        output=(result[2] // strides[0], result[3] // strides[1]),
        kernel=_pair(physical[2:]),
        strides=(1, 1),
        pads=(pads[0] - first[0], pads[1] - first[1]),
        dilations=(1, 1),
    )
    packed = planner.weight(call.args[1], physical)
    planner.storages[packed].transform = transform
    anchor = Contraction(
        (), result[0], window, shape[0], 1, data, prologue, packed, physical[:1], _LATER, ()
    )
    planner.bind_anchor(var, anchor, IMAGE, strides)
    return True


def product(planner: Planner, var: Any, call: Any) -> bool:
    """relax.matmul: of anything with a constant matrix, or of data with data."""
    weight = planner.constant(call.args[1])
    shape = static_shape(call.args[1].ty)
    value = planner.value(call.args[0])
    single = all(extent == 1 for extent in value.shape[:-2])
    if weight < 0 or len(shape) != 2 or not 2 <= len(value.shape) <= 4 or not single:
        return attention.product(planner, var, call)
    stored = planner.stored(value)
    if not is_row_major(stored):
        return False
    rows, depth = prod(value.shape[:-1]), value.shape[-1]
    window = Window((1, rows), (1, rows), (1, 1), (1, 1), (0, 0), (1, 1))
    data = Access(stored.storage, stored.offset, (0, 0, depth, 1))
    packed = planner.weight(call.args[1], shape)
    anchor = Contraction((), 1, window, depth, 1, data, ACC, packed, (shape[1],), _LATER, ())
    planner.bind_anchor(var, anchor, PLAIN)
    return True


def pool(planner: Planner, var: Any, call: Any) -> bool:
    """relax.nn.max_pool2d and relax.nn.avg_pool2d."""
    attrs = call.attrs
    if (str(attrs.layout), str(attrs.out_layout)) != ("NCHW", "NCHW"):
        return False
    kind = "max" if call.op.name == "relax.nn.max_pool2d" else "mean"
    value = planner.value(call.args[0])
    if kind == "max" and isinstance(value, Padded):
        value = planner.stored(value)
    padding = [int(p) for p in attrs.padding]
    kernel = _pair(attrs.pool_size)
    if kernel == (1, 1) and not any(padding):
        taken = views.subsample(planner, value, _pair(attrs.strides), var)
        if taken:
            return True
    data, prologue, pads, inner = read_input(planner, value, True)
    output = static_shape(var.ty)[2:]
    # With ceil_mode the last window may begin beyond the padding; TVM's divisor is its own.
    reach = [
        (o - 1) * s + (k - 1) * d + 1
        for o, s, k, d in zip(
            output, _pair(attrs.strides), kernel, _pair(attrs.dilation), strict=True
        )
    ]
    overhang = [
        r > v + padding[i] + padding[i + 2]
        for i, (r, v) in enumerate(zip(reach, value.shape[2:], strict=True))
    ]
    window = Window(
        input=(inner[2], inner[3]),
        output=(output[0], output[1]),
        kernel=kernel,
        strides=_pair(attrs.strides),
        pads=(padding[0] + pads[0], padding[1] + pads[1]),
        dilations=_pair(attrs.dilation),
    )
    scale: Expr | None = None
    if kind == "mean":
        border = any(padding) or any(overhang)
        if any(overhang) if attrs.count_include_pad else border and any(pads):
            return False
        if attrs.count_include_pad or not border:
            kind, scale = "sum", ("const", float(kernel[0] * kernel[1]))
    anchor = Pooling((), kind, value.shape[0], window, value.shape[1], data, prologue, None, ())
    planner.bind_anchor(var, anchor, IMAGE)
    if scale is not None:
        pending = planner.value(var)
        assert isinstance(pending, Pending)
        pending.expr = ("div", ACC, scale)
    return True


def spatial_mean(planner: Planner, var: Any, call: Any) -> bool:
    """relax.mean over rows and columns, or the same as an adaptive pooling."""
    value = planner.value(call.args[0])
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
        value = planner.stored(value)
    data, prologue, _, _ = read_input(planner, value, True)
    n, c, h, w = value.shape
    planner.bind_anchor(var, Mean((), n, (h, w), c, data, prologue, ()), IMAGE)
    return True


def channel_mean(planner: Planner, var: Any, call: Any) -> bool:
    """relax.nn.avg_pool3d as local response normalisation uses it: over channels only."""
    attrs = call.attrs
    value = planner.value(call.args[0])
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
        flat = Stored(value.storage, image, (value.strides[0], *value.strides[2:]), value.offset)
        read = access(flat, image)
        assert read is not None
        inner: Expr = ("load", read)
    else:
        inner = value.expr
    total: Expr = ("div", ("window", inner, pads[0], pads[3], shape[2]), ("const", float(size)))
    planner.bind(var, Lazy(total, shape))
    return True


def squeeze(planner: Planner, var: Any, call: Any) -> bool:
    """relax.squeeze, relax.expand_dims: a reshape, also of what is not stored yet."""
    value = planner.value(call.args[0])
    shape = static_shape(var.ty)
    if isinstance(value, Lazy):
        wide, image = sorted((value.shape, shape), key=len, reverse=True)
        if views.has_an_axis_more(wide, image):
            planner.bind(var, Lazy(value.expr, shape, planner.home(var)))
            return True
        if len(value.shape) > 4:
            return False
    return views.reshape(planner, var, call)


def _pair(values: Any) -> tuple[int, int]:
    first, second = (int(v) for v in values)
    return first, second


RULES: dict[str, Callable[[Any, Any, Any], bool]] = {
    "relax.nn.conv2d": convolution,
    "relax.nn.conv2d_transpose": transposed_convolution,
    "relax.matmul": product,
    "relax.nn.max_pool2d": pool,
    "relax.nn.avg_pool2d": pool,
    "relax.nn.avg_pool3d": channel_mean,
    "relax.nn.softmax": attention.softmax,
    "relax.nn.layer_norm": attention.layer_norm,
    "relax.image.resize2d": resize,
    "relax.mean": spatial_mean,
    "relax.nn.adaptive_avg_pool2d": spatial_mean,
    "relax.concat": shuffle.concat,
    "relax.split": views.split,
    "relax.strided_slice": views.strided_slice,
    "relax.nn.pad": views.pad,
    "relax.permute_dims": views.transpose,
    "relax.reshape": shuffle.reshape,
    "relax.flatten": views.reshape,
    "relax.nn.batch_flatten": views.reshape,
    "relax.squeeze": squeeze,
    "relax.expand_dims": squeeze,
}
