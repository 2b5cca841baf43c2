"""Bring ``Resize`` to one form, because importers silently misread its other forms."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from math import floor
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import constant, is_of_onnx, new_constant
from tvm_ios.onnx.rewrites.resample import Axis, Filter, is_misread, simplest, taps
from tvm_ios.onnx.rewrites.steps import Steps, static_shape


def explicit_sizes(graph: Any, node: Any, opset: int) -> None:
    """Let a ``Resize`` state its result's shape, or write it as sums of gathered pixels.

    Importers read forms that a size describes, of images only. Other forms, and those in which
    floating-point positions would choose the wrong pixel, become sums. Raise GraphError if its
    scales or sizes depend on data or are ambiguous.
    """
    if node.op_type != "Resize" or not is_of_onnx(node):
        return
    name = f"operator {node.name or node.outputs[0].name!r} (Resize)"
    before, after = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if before is None or after is None:
        raise GraphError(f"{name} has a size that depends on data; export it with constant sizes")
    filter, axes = _filter(node), _axes(name, node, before, after)
    if [axis.after for axis in axes] != after:
        sizes = "x".join(str(axis.after) for axis in axes)
        raise GraphError(f"{name} makes {sizes}, and the model says otherwise: export it again")
    if _describes(node, filter, axes):
        _say_sizes(graph, node, opset, after)
    else:
        _write_sums(name, Steps(graph, node, opset), filter, axes)


def _filter(node: Any) -> Filter:
    get = node.attributes.get_int
    return Filter(
        node.attributes.get_string("mode", "nearest"),
        node.attributes.get_string("nearest_mode", "round_prefer_floor"),
        simplest(node.attributes.get_float("cubic_coeff_a", -0.75)),
        bool(get("antialias", 0)),
        bool(get("exclude_outside", 0)),
    )


def _axes(name: str, node: Any, before: Sequence[int], after: Sequence[int]) -> list[Axis]:
    """Return all axes of the data, as the inputs and attributes describe them."""
    inputs: list[Any] = [*node.inputs[1:], None, None, None]
    roi, scales, sizes = inputs[:3]
    coordinates = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
    policy = node.attributes.get_string("keep_aspect_ratio_policy", "stretch")
    cropped = coordinates == "tf_crop_and_resize"
    if _varies(scales) or (_varies(roi) and cropped) or (_varies(sizes) and policy != "stretch"):
        raise GraphError(f"{name} has scales that are an input; export it with constant ones")
    rank = len(before)
    axes: list[int] = list(node.attributes.get_ints("axes", range(rank)))
    stated = [axis % rank for axis in axes]
    factors = [Fraction(end, begin) for begin, end in zip(before, after, strict=True)]
    extents = list(after)
    numbers = constant(scales)
    if numbers is not None and numbers.size:
        for axis, scale in zip(stated, numbers.tolist(), strict=True):
            # A scale that was rounded on its way into the model still means a whole number.
            if abs(before[axis] * scale - after[axis]) > 1e-4 * after[axis]:
                factors[axis] = simplest(scale)
                extents[axis] = floor(before[axis] * factors[axis])
    elif policy != "stretch":
        extent = sizes.const_value.numpy().tolist()
        wanted = [Fraction(size, before[axis]) for axis, size in zip(stated, extent, strict=True)]
        factor = min(wanted) if policy == "not_larger" else max(wanted)
        for axis in stated:
            factors[axis] = factor
            extents[axis] = floor(factor * before[axis] + Fraction(1, 2))
    crops = {axis: (Fraction(0), Fraction(1)) for axis in range(rank)}
    if cropped and (bounds := constant(roi)) is not None:
        begins, ends = bounds.reshape(2, -1).tolist()
        for axis, *crop in zip(stated, begins, ends, strict=True):
            crops[axis] = (simplest(crop[0]), simplest(crop[1]))
    return [Axis(before[i], extents[i], factors[i], coordinates, *crops[i]) for i in range(rank)]


def _varies(value: Any) -> bool:
    return value is not None and constant(value) is None


def _describes(node: Any, filter: Filter, axes: Sequence[Axis]) -> bool:
    """Return whether the result's size describes the resize to importers that only know images."""
    if filter.antialias or filter.exclude_outside or axes[0].coordinates == "tf_crop_and_resize":
        return False
    if not all(axis.is_same for axis in axes[:2]) or not all(axis.is_whole for axis in axes):
        return False
    if axes[0].coordinates == "align_corners" and any(axis.after == 1 for axis in axes[2:]):
        return False  # of one pixel TVM divides by the distance of its corners
    return filter.mode != "nearest" or not any(is_misread(axis, filter) for axis in axes)


def _say_sizes(graph: Any, node: Any, opset: int, after: Sequence[int]) -> None:
    get = node.attributes.get_string
    if get("coordinate_transformation_mode", "") == "half_pixel_symmetric":
        # For sizes that are not rounded both modes are equal.
        node.attributes["coordinate_transformation_mode"] = ir.AttrString(
            "coordinate_transformation_mode", "half_pixel"
        )
    scales = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    # Before opset 13 scales cannot be left out, and an empty tensor stands for none.
    if opset < 13 and scales is not None and scales.size:
        return
    for attribute in ("antialias", "axes", "exclude_outside", "keep_aspect_ratio_policy"):
        node.attributes.pop(attribute, None)
    node.resize_inputs(4)
    sizes = new_constant(graph, f"{node.outputs[0].name}.sizes", np.array(after, np.int64))
    for position, value in ((1, None), (2, None), (3, sizes)):
        node.replace_input_with(position, value)


def _write_sums(name: str, steps: Steps, filter: Filter, axes: Sequence[Axis]) -> None:
    """Gather the pixels along each axis and sum them with their weights."""
    source, coordinates = steps.node.inputs[0], axes[0].coordinates
    if coordinates in ("align_corners", "tf_crop_and_resize") and not all(
        axis.is_whole for axis in axes
    ):
        raise GraphError(
            f"{name} scales to no whole number of pixels in the mode {coordinates}, of which "
            "ONNX's text and its tests say different things; export it with sizes"
        )
    value, dtype = source, source.dtype
    if filter.mode != "nearest":
        if dtype is None or not dtype.is_floating_point():
            raise GraphError(f"{name} interpolates integers; export it for floating-point numbers")
        if dtype != ir.DataType.DOUBLE:
            value = steps.cast(source, ir.DataType.FLOAT)
    kind = value.dtype.numpy()
    # Shrinking axes first leaves less work for the others.
    order = sorted(range(len(axes)), key=lambda i: Fraction(axes[i].after, axes[i].before))
    for place in (i for i in order if not axes[i].is_same):
        pixels, weights = taps(axes[place], filter)
        if filter.mode == "nearest":
            value = steps.op("Gather", value, steps.number(pixels[:, 0]), axis=place)
            continue
        parts = steps.op("Gather", value, steps.number(pixels), axis=place)
        factors = weights.reshape(*weights.shape, *[1] * (len(axes) - place - 1))
        parts = steps.op("Mul", parts, steps.number(factors.astype(kind)))
        value = steps.summed(parts, [place + 1])
    outside = reduce(np.logical_or.outer, [axis.outside() for axis in axes])
    if outside.any():
        number = steps.node.attributes.get_float("extrapolation_value", 0.0)
        value = steps.op(
            "Where", steps.number(outside), steps.number(np.array(number, kind)), value
        )
    value.dtype = value.dtype or ir.DataType.from_numpy(kind)
    steps.stand_for(steps.cast(value, dtype))
