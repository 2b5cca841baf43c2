"""Converters of operators that TVM's ONNX importer lacks or folds away.

No other operators of ONNX compute the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tvm
from onnx import helper
from tvm import relax, topi
from tvm.relax.frontend.onnx import onnx_frontend

from relay_passes.relax.expressions import data_type
from relay_passes.relax.roi_align import roi_align
from runtime_ext.kernels.float_edges import FLOATS, INTEGERS
from runtime_ext.kernels.recurrence_operator import Recurrent, recurrence
from tvm_ios.onnx.rewrites.recurrence.loops import LAYERS, OPTIONAL


class _BitCast(onnx_frontend.OnnxOpConverter):
    @classmethod
    def _impl_v26(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        dtype = helper.tensor_dtype_to_np_dtype(attr["to"]).name
        return bb.emit_te(topi.reinterpret, inputs[0], dtype)


class _BitShift(onnx_frontend.OnnxOpConverter):
    """A converter of BitShift that does not fold shifts of constants.

    Such shifts unpack weights when the program runs, so that the stored weights stay packed.
    """

    @classmethod
    def _impl_v11(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        left = attr["direction"] == b"LEFT"
        return (relax.op.left_shift if left else relax.op.right_shift)(*inputs)


class _Cast(onnx_frontend.Cast):
    """A converter of Cast from floats to integers as one operator, whose kernels know the edges.

    TVM's own takes seven, some of 64 bits, for what ONNX leaves open.
    """

    @classmethod
    def _impl_v13(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        source, to = inputs[0], str(onnx_frontend.get_type(attr["to"]))
        if to not in INTEGERS or isinstance(source, tvm.ir.GenericConst | relax.ShapeExpr):
            return super()._impl_v13(bb, inputs, attr, params)
        source = bb.normalize(source)
        if data_type(source) not in FLOATS:
            return super()._impl_v13(bb, inputs, attr, params)
        return relax.op.astype(source, to)


class _CumProd(onnx_frontend.OnnxOpConverter):
    @classmethod
    def _impl_v26(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        source, axis_input = inputs
        axis_value = onnx_frontend.get_constant(axis_input, params)
        if not isinstance(axis_value, tvm.ir.GenericConst):
            raise ValueError("its axis is an input")
        axis = int(axis_value.value.numpy().item())
        turned = bool(attr.get("reverse", 0))
        source = bb.emit_te(topi.flip, source, axis) if turned else source
        exclusive = bool(attr.get("exclusive", 0))
        product = bb.normalize(relax.op.cumprod(source, axis, exclusive=exclusive))
        return bb.emit_te(topi.flip, product, axis) if turned else product


class _Pad(onnx_frontend.Pad):
    """A converter of Pad that keeps one of no width, which other shapes of a range need."""

    @classmethod
    def _lower_pad(cls, bb: Any, inputs: Any, attr: Any, params: Any, allowed_modes: Any) -> Any:
        before, after, fill = cls._parse_pads_and_axes(inputs, params)
        if any(before) or any(after) or attr.get("mode", b"constant") != b"constant":
            return super()._lower_pad(bb, inputs, attr, params, allowed_modes)
        return relax.op.nn.pad(inputs[0], [*before, *after], "constant", fill)


class _RoiAlign(onnx_frontend.OnnxOpConverter):
    """A converter of RoiAlign with adaptive ratios and the mode ``max``.

    TVM's own lacks both, and shifts coordinates before it scales them.
    """

    @classmethod
    def _impl_v10(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        return cls._of(bb, inputs, attr, "output_half_pixel")

    @classmethod
    def _impl_v16(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        return cls._of(bb, inputs, attr, "half_pixel")

    @classmethod
    def _of(cls, bb: Any, inputs: Any, attr: Any, transformation: str) -> Any:
        transformation = attr.get("coordinate_transformation_mode", transformation.encode())
        size = (attr.get("output_height", 1), attr.get("output_width", 1))
        arguments = [bb.normalize(value) for value in inputs]
        image, regions, _ = (value.ty for value in arguments)
        function = roi_align(
            *(value.ty for value in arguments),
            size=size,
            ratio=attr.get("sampling_ratio", 0),
            scale=attr.get("spatial_scale", 1.0),
            half_pixel=transformation == b"half_pixel",
            largest=attr.get("mode", b"avg").lower() == b"max",
        )
        shape = (regions.shape[0], image.shape[1], *size)
        called = bb.add_func(function, "roi_align")
        return relax.call_tir(called, arguments, relax.TensorType(shape, image.dtype))


class _Steps(onnx_frontend.OnnxOpConverter):
    """A converter of the operators of :mod:`tvm_ios.onnx.rewrites.recurrence.loops`."""

    kind = ""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        gates, weight, *rest = inputs
        given = {
            name: value
            for name, value in zip(OPTIONAL[cls.kind], rest, strict=False)
            if value is not None
        }
        recurrent = Recurrent(
            kind=cls.kind.removeprefix("DynamicQuantize").lower(),
            activations=tuple(name.decode().lower() for name in attr["activations"]),
            reverse=attr["direction"] == b"reverse",
            late=bool(attr.get("linear_before_reset", 0)),
            given=tuple(given),
            memory=attr["tvm_custom"]["num_outputs"] > 1,
        )
        return bb.emit(recurrence(gates, weight, given, recurrent))


_CONVERTERS = {
    "BitCast": _BitCast,
    "BitShift": _BitShift,
    "Cast": _Cast,
    "CumProd": _CumProd,
    "Pad": _Pad,
    "RoiAlign": _RoiAlign,
    **{name: type(name, (_Steps,), {"kind": kind}) for name, kind in LAYERS.items()},
}


def converters() -> dict[str, Any]:
    """Return the converter of each ONNX operator: those of TVM, and those of this file."""
    return _tvm_converters() | _CONVERTERS


_tvm_converters = onnx_frontend._get_convert_map  # pyright: ignore[reportPrivateUsage]


@contextmanager
def more_converters() -> Iterator[None]:
    """Add this file's converters to TVM's Relax importer within a ``with`` block."""
    onnx_frontend._get_convert_map = converters  # pyright: ignore[reportPrivateUsage]
    try:
        yield
    finally:
        onnx_frontend._get_convert_map = _tvm_converters  # pyright: ignore[reportPrivateUsage]
