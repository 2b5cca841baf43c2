"""Make paddings of windowed operators explicit, and write pads that copy elements in others."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.steps import Steps

_END = np.iinfo(np.int64).max


def gather_what_pads_copy(graph: Any, node: Any, opset: int) -> None:
    """Write a Pad that reflects, repeats or wraps as a Gather along each padded axis."""
    _copy(graph, node, opset, in_parts=False)


def join_what_pads_copy(graph: Any, node: Any, opset: int) -> None:
    """Write a Pad that reflects, repeats or wraps as a Concat of slices along each padded axis.

    A Gather takes less time, but its indices are other ones at each shape.
    """
    _copy(graph, node, opset, in_parts=opset >= 10)


def _copy(graph: Any, node: Any, opset: int, *, in_parts: bool) -> None:
    mode = node.attributes.get_string("mode", "constant") if node.op_type == "Pad" else "constant"
    if mode not in ("reflect", "edge", "wrap"):
        return
    value: Any = node.inputs[0]
    if value.shape is None or not value.shape.is_static():
        return
    extents: list[int] = list(value.shape)
    width_input = constant(node.inputs[1]) if len(node.inputs) > 1 else None
    axes = constant(node.inputs[3]) if len(node.inputs) > 3 else np.arange(len(extents))
    widths = node.attributes.get_ints("pads", None) if width_input is None else width_input.tolist()
    if widths is None or axes is None or not any(widths):
        return
    steps = Steps(graph, node, opset)
    half = len(widths) // 2
    for axis, begin, end in zip(axes.tolist(), widths[:half], widths[half:], strict=True):
        if not begin and not end:
            continue
        axis %= len(extents)
        if in_parts and min(begin, end) >= 0 and max(begin, end) < extents[axis] - 1:
            value = _joined(steps, value, axis, mode, begin, end)
            continue
        # What negative pads take away is gone before anything is copied, as in ONNX Runtime.
        kept = np.arange(max(-begin, 0), extents[axis] - max(-end, 0), dtype=np.int64)
        rows = np.pad(kept, (max(begin, 0), max(end, 0)), mode=mode)
        value = steps.op("Gather", value, steps.number(rows), axis=axis)
    steps.stand_for(value)


def _joined(steps: Steps, value: Any, axis: int, mode: str, begin: int, end: int) -> Any:
    """Return the Concat of what a Pad copies before an axis, the data, and what it copies after."""
    match mode:
        case "reflect":
            sides = (begin, 0, -1), (-2, -2 - end, -1)
        case "wrap":
            sides = (-begin, _END, 1), (0, end, 1)
        case _:
            sides = (0, 1, 1), (-1, _END, 1)
    copies: list[list[Any]] = []
    for count, (first, last, step) in zip((begin, end), sides, strict=True):
        if not count:
            copies.append([])
            continue
        bounds = [first], [last], [axis], [step]
        copy = steps.op("Slice", value, *map(steps.number, bounds))
        if mode == "edge" and count > 1:
            copy = steps.op("Gather", copy, steps.number([0] * count), axis=axis)
        copies.append([copy])
    before, after = copies
    return steps.op("Concat", *before, value, *after, axis=axis)


def explicit_pads(graph: Any, node: Any, opset: int) -> None:
    """Replace ``auto_pad``, and ``output_shape`` of a transposed convolution, by ``pads``."""
    del graph, opset
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
    output_extents = get("output_shape", None)
    node.attributes.pop("auto_pad", None)
    node.attributes.pop("output_shape", None)
    if output_extents is None and mode not in ("SAME_UPPER", "SAME_LOWER"):
        return
    source = node.inputs[0].shape[2:]
    strides = get("strides", [1] * len(source))
    if output_extents is None:
        output_extents = [extent * stride for extent, stride in zip(source, strides, strict=True)]
    kernel = node.inputs[1].shape[2:]
    more = get("output_padding", [0] * len(source))
    dilations = get("dilations", [1] * len(source))
    begins: list[int] = []
    ends: list[int] = []
    for axis, extent in enumerate(source):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        total = strides[axis] * (extent - 1) + more[axis] + reach - output_extents[axis]
        small, large = total // 2, total - total // 2
        begins.append(small if mode == "SAME_UPPER" else large)
        ends.append(large if mode == "SAME_UPPER" else small)
    node.attributes["pads"] = ir.AttrInt64s("pads", [*begins, *ends])
