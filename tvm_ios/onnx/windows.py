"""Translate convolutions, pools and resizes of ONNX into the canonical kinds."""

from __future__ import annotations

from typing import Any

from tvm_ios.graph.elements import AttrValue
from tvm_ios.onnx.canonical import Attrs, Canonical, Handler, static_shape
from tvm_ios.onnx.edit import constant


def _convolution(kind: str) -> Handler:
    def read(node: Any, _: int) -> list[Canonical] | None:
        data, weight, *bias = node.inputs
        if len(weight.shape) != 4 or constant(weight) is None:
            return None
        get = node.attributes.get_ints
        attrs: Attrs = {
            "strides": tuple(get("strides", (1, 1))),
            "pads": tuple(get("pads", (0, 0, 0, 0))),
            "dilations": tuple(get("dilations", (1, 1))),
            "group": node.attributes.get_int("group", 1),
        }
        if kind == "conv2d_transpose":
            attrs["output_padding"] = tuple(get("output_padding", (0, 0)))
        steps = [Canonical(kind, (data, weight), attrs)]
        return steps + [Canonical("bias_add", (value,)) for value in bias if value is not None]

    return read


def _resize(node: Any, _: int) -> Canonical | None:
    # The simplification has refused what a size does not describe.
    get = node.attributes.get_string
    size = static_shape(node.outputs[0])[2:]
    coordinates = get("coordinate_transformation_mode", "half_pixel")
    if len(size) != 2 or coordinates == "tf_crop_and_resize":
        return None
    mode = get("mode", "nearest")
    attrs: dict[str, AttrValue] = {"size": size, "mode": mode, "coordinates": coordinates}
    if mode == "nearest":
        attrs["rounding"] = get("nearest_mode", "round_prefer_floor")
    elif mode == "cubic":
        attrs["alpha"] = node.attributes.get_float("cubic_coeff_a", -0.75)
    return Canonical("resize2d", node.inputs[:1], attrs)


def _pool(node: Any, _: int) -> Canonical | None:
    if len(node.inputs[0].shape) != 4 or len(node.outputs) > 1:
        return None
    get = node.attributes.get_ints
    attrs: dict[str, AttrValue] = {
        "kernel": tuple(get("kernel_shape")),
        "strides": tuple(get("strides", (1, 1))),
        "pads": tuple(get("pads", (0, 0, 0, 0))),
        "ceil_mode": bool(node.attributes.get_int("ceil_mode", 0)),
    }
    dilations = tuple(get("dilations", (1, 1)))
    if node.op_type == "MaxPool":
        return Canonical("max_pool2d", node.inputs, attrs | {"dilations": dilations})
    if dilations != (1, 1):
        return None
    counts = bool(node.attributes.get_int("count_include_pad", 0))
    return Canonical("avg_pool2d", node.inputs, attrs | {"count_include_pad": counts})


#: By the name of the ONNX operator.
WINDOWS: dict[str, Handler] = {
    "AveragePool": _pool,
    "Conv": _convolution("conv2d"),
    "ConvTranspose": _convolution("conv2d_transpose"),
    "MaxPool": _pool,
    "Resize": _resize,
}
