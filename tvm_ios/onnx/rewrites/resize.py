"""One form of ``Resize``, because readers take its other forms for something else, silently."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor
from typing import Any

import numpy as np
import onnx
from onnx import version_converter

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import constant, new_constant
from tvm_ios.onnx.rewrites.quantised import QUANTISED
from tvm_ios.onnx.rewrites.steps import Steps

#: The first version whose ``Resize`` says how it maps coordinates, and that rounds numbers.
_MODERN = 11
_OLD = frozenset({"Upsample", "Resize", *QUANTISED["ai.onnx"]})
#: With these a size alone does not say which pixels are read.
_SPECIAL = ("antialias", "exclude_outside", "keep_aspect_ratio_policy")

#: The library's own types are incomplete.
_onnx: Any = onnx
_converter: Any = version_converter


def modernise(model: Any) -> Any:
    """The model in opset 11 if it resizes, or has quantised operators, in an older one.

    Raises
    ------
    GraphError
        If it cannot be converted.
    """
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    if opset >= _MODERN or not any(n.op_type in _OLD for n in model.graph.node):
        return model
    try:
        converted = _converter.convert_version(model, _MODERN)
    except Exception as error:  # the converter's own error types are private
        reason = (str(error).strip().splitlines() or [repr(error)])[0]
        raise GraphError(
            f"the model resizes or quantises by the rules of opset {opset}, and converting it "
            f"fails ({reason}); export it with opset {_MODERN} or later"
        ) from error
    for node in converted.graph.node:
        if node.op_type == "Resize":
            # What the old versions meant; the converter leaves it out.
            modes = [a for a in node.attribute if a.name == "mode"]
            del node.attribute[:]
            node.attribute.extend(modes)
            for name, value in (
                ("coordinate_transformation_mode", "asymmetric"),
                ("nearest_mode", "floor"),
            ):
                node.attribute.append(_onnx.helper.make_attribute(name, value))
    return converted


def explicit_sizes(graph: Any, node: Any, opset: int) -> None:
    """Let a ``Resize`` by constant scales or sizes say its whole result's shape, or refuse it.

    Raises
    ------
    GraphError
        If the scales do not lead to whole sizes, so that the sizes alone would read other
        pixels, or the operator resizes in a way that readers do not know.
    """
    if node.op_type != "Resize" or node.domain not in ("", "ai.onnx"):
        return
    source, result = node.inputs[0].shape, node.outputs[0].shape
    name = f"operator {node.name or node.outputs[0].name!r} (Resize)"
    if source is None or result is None or not (source.is_static() and result.is_static()):
        raise GraphError(f"{name} has a size that depends on data; export it with constant sizes")
    if any(len(node.inputs) > i and _varies(node.inputs[i]) for i in (1, 2)):
        raise GraphError(f"{name} has scales that are an input; export it with constant ones")
    before, after = tuple(source), tuple(result)
    if before[:2] != after[:2]:
        raise GraphError(f"{name} resizes the batch or the channels; only images can be resized")
    special = next((a for a in _SPECIAL if a in node.attributes), None)
    if special is not None and node.attributes[special].value not in (0, "stretch"):
        raise GraphError(f"{name} has the attribute {special}; export it without")
    mode = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
    scales = constant(node.inputs[2]) if len(node.inputs) > 2 else None
    if scales is not None and scales.size:
        axes = node.attributes.get_ints("axes", range(len(before)))
        for axis, scale in zip(axes, scales.tolist(), strict=True):
            if abs(before[axis] * scale - after[axis]) > 1e-4 * after[axis]:
                raise GraphError(
                    f"{name} scales {before[axis]} pixels by {scale:g}, to no whole number; "
                    "export it with sizes instead of scales"
                )
    if node.attributes.get_string("mode", "nearest") == "nearest":
        rounding = node.attributes.get_string("nearest_mode", "round_prefer_floor")
        places = [nearest_places(*pair, mode, rounding) for pair in zip(before, after, strict=True)]
        if any(tie for _, tie in places):
            return _gather(Steps(graph, node, opset), [pixels for pixels, _ in places])
    # Before opset 13 scales cannot be left out, and an empty tensor stands for none.
    if mode == "tf_crop_and_resize" or (opset < 13 and scales is not None and scales.size):
        return
    for attribute in (*_SPECIAL, "axes"):
        node.attributes.pop(attribute, None)
    node.resize_inputs(4)
    sizes = new_constant(graph, f"{node.outputs[0].name}.sizes", np.array(after, np.int64))
    for position, value in ((1, None), (2, None), (3, sizes)):
        node.replace_input_with(position, value)


def _varies(value: Any) -> bool:
    return value is not None and constant(value) is None


def nearest_places(before: int, after: int, mode: str, rounding: str) -> tuple[list[int], bool]:
    """The pixels of an axis that are nearest to each pixel of the result.

    Returns
    -------
    list of int, bool
        The pixels, and whether one of them lies just between two, where floating-point numbers
        decide by chance; never for whole factors, which kernels of ours compute, nor in the mode
        ``asymmetric``, where TVM rounds with care, nor in modes that are not known here.
    """
    half = Fraction(1, 2)
    known = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners")
    if mode not in known or before == after:
        return [], False
    pixels: list[int] = []
    tie = False
    for result in range(after):
        if mode == "align_corners":
            place = Fraction(result * (before - 1), max(after - 1, 1))
        elif mode == "asymmetric":
            place = Fraction(result * before, after)
        elif mode == "pytorch_half_pixel" and after == 1:
            place = Fraction(0)
        else:
            place = (result + half) * before / after - half
        border = place + half if rounding.startswith("round") else place
        tie |= border.denominator == 1 and after % before > 0 and mode != "asymmetric"
        nearest = {
            "floor": floor(place),
            "ceil": ceil(place),
            "round_prefer_floor": ceil(place - half),
            "round_prefer_ceil": floor(place + half),
        }[rounding]
        pixels.append(min(max(nearest, 0), before - 1))
    return pixels, tie


def _gather(steps: Steps, pixels: Sequence[Sequence[int]]) -> None:
    """Read these pixels of each axis; all of them, where there are none."""
    value = steps.node.inputs[0]
    for axis, places in enumerate(pixels):
        if places:
            value = steps.op("Gather", value, steps.number(list(places)), axis=axis)
    steps.stand_for(value)
