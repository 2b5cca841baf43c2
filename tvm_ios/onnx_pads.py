"""The padding of windowed operators, as numbers."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir


def explicit_pads(node: Any) -> None:
    """Say as ``pads`` what ``auto_pad`` or a transposed convolution's ``output_shape`` means."""
    mode = node.attributes.get_string("auto_pad", "NOTSET")
    if node.op_type == "ConvTranspose":
        _transposed(node, mode)
        return
    if node.op_type not in ("Conv", "MaxPool", "AveragePool") or mode == "NOTSET":
        return
    del node.attributes["auto_pad"]
    source = node.inputs[0].shape
    rank = len(source) - 2
    kernel = node.attributes.get_ints("kernel_shape", None)
    kernel = node.inputs[1].shape[2:] if kernel is None else kernel
    strides = node.attributes.get_ints("strides", [1] * rank)
    dilations = node.attributes.get_ints("dilations", [1] * rank)
    begins, ends = [0] * rank, [0] * rank
    for axis in range(rank if mode != "VALID" else 0):
        extent, stride = source[axis + 2], strides[axis]
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        total = max(0, (-(-extent // stride) - 1) * stride + reach - extent)
        small, large = total // 2, total - total // 2
        begins[axis], ends[axis] = (small, large) if mode == "SAME_UPPER" else (large, small)
    node.attributes["pads"] = ir.AttrInt64s("pads", [*begins, *ends])


def _transposed(node: Any, mode: str) -> None:
    get = node.attributes.get_ints
    wanted = get("output_shape", None)
    node.attributes.pop("auto_pad", None)
    node.attributes.pop("output_shape", None)
    if wanted is None and mode not in ("SAME_UPPER", "SAME_LOWER"):
        return
    source = node.inputs[0].shape[2:]
    strides = get("strides", [1] * len(source))
    if wanted is None:
        wanted = [extent * stride for extent, stride in zip(source, strides, strict=True)]
    kernel = node.inputs[1].shape[2:]
    more = get("output_padding", [0] * len(source))
    dilations = get("dilations", [1] * len(source))
    begins: list[int] = []
    ends: list[int] = []
    for axis, extent in enumerate(source):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        total = strides[axis] * (extent - 1) + more[axis] + reach - wanted[axis]
        small, large = total // 2, total - total // 2
        begins.append(small if mode == "SAME_UPPER" else large)
        ends.append(large if mode == "SAME_UPPER" else small)
    node.attributes["pads"] = ir.AttrInt64s("pads", [*begins, *ends])
