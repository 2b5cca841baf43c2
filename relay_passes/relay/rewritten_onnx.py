"""Rewrite ONNX operators that TVM's Relay importer misreads as other operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi, prod, sqrt
from typing import Any

import onnx
import onnx_ir as ir

from relay_passes.dialect import DialectError
from tvm_ios.onnx.rewrites.pads import explicit_pads
from tvm_ios.onnx.rewrites.steps import Steps, static_shape


def rewritten(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a simplified model with the operators of :data:`_WRITERS` rewritten.

    Raise DialectError if the importer misreads an operator that no others can express.
    """
    if not any(node.op_type in _WRITERS for node in model.graph.node):
        return model
    work = ir.serde.deserialize_model(model)
    for node in list(work.graph):
        if node.op_type in _WRITERS and node.domain == "":
            _WRITERS[node.op_type](Steps(work.graph, node, work.opset_imports[""]))
    return ir.serde.serialize_model(work)


def _gelu(steps: Steps) -> None:
    """Write Gelu with the tanh approximation as operators; the importer ignores ``approximate``."""
    (source,) = steps.node.inputs
    if steps.node.attributes.get_string("approximate", "none") != "tanh":
        return
    cube = steps.op("Mul", steps.op("Mul", source, source), source)
    inside = steps.op("Add", source, steps.op("Mul", cube, steps.number(0.044715)))
    curve = steps.op("Tanh", steps.op("Mul", inside, steps.number(sqrt(2 / pi))))
    half = steps.op("Mul", source, steps.number(0.5))
    steps.stand_for(steps.op("Mul", half, steps.op("Add", curve, steps.number(1.0))))


def _lp_pool(steps: Steps) -> None:
    """Write LpPool as powers, an average pool and a root.

    The importer takes powers of negative numbers, and ignores padding.
    """
    (source,), attributes, result = steps.node.inputs, steps.attributes, steps.node.outputs[0]
    p = float(attributes.pop("p", 2))
    powers = steps.op("Pow", steps.op("Abs", source), steps.number(p), like=source)
    means = steps.op("AveragePool", powers, like=result, count_include_pad=1, **attributes)
    explicit_pads(steps.graph, means.producer(), steps.opset)
    _say_ceiling_by_pads(means.producer())
    sums = steps.op("Mul", means, steps.number(float(prod(attributes["kernel_shape"]))))
    steps.stand_for(steps.op("Pow", sums, steps.number(1 / p)))


def _mean(steps: Steps) -> None:
    """Write Mean as additions; the importer concatenates the operands, which needs equal shapes."""
    first, *others = steps.node.inputs
    if not others:
        return
    total = first
    for other in others:
        total = steps.op("Add", total, other)
    steps.stand_for(steps.op("Mul", total, steps.number(1 / (1 + len(others)))))


def _roi_align(steps: Steps) -> None:
    """Raise DialectError for a RoiAlign that the importer misreads.

    It reads the mode ``avg`` with a positive ratio and the coordinates from before opset 16.
    """
    get = steps.node.attributes.get_string
    given = {
        "half_pixel": steps.opset >= 16
        and get("coordinate_transformation_mode", "half_pixel") == "half_pixel",
        "max": get("mode", "avg") == "max",
        "sampling_ratio 0": steps.integer("sampling_ratio", 0) <= 0,
    }
    for mode, is_given in given.items():
        if is_given:
            raise DialectError(
                f"RoiAlign {steps.name!r} has the mode {mode}, which TVM reads otherwise: export "
                "the model with output_half_pixel, avg and a sampling_ratio of 2, or choose the "
                "dialect relax"
            )


def _gather(steps: Steps) -> None:
    """Make the axis of a Gather positive; the importer wraps indices wrongly for a negative one."""
    axis, source = steps.integer("axis", 0), steps.node.inputs[0]
    if axis < 0 and source.shape is not None:
        steps.node.attributes["axis"] = ir.AttrInt64("axis", axis + len(source.shape))


def _say_ceiling_by_pads(node: Any) -> None:
    """Replace ``ceil_mode`` of a pool by the padding that has the same effect."""
    if not node.attributes.get_int("ceil_mode", 0):
        return
    image, result = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if image is None or result is None:
        return
    get, rank = node.attributes.get_ints, len(image) - 2
    kernel, pads = get("kernel_shape"), list(get("pads", [0] * 2 * rank))
    strides, dilations = get("strides", [1] * rank), get("dilations", [1] * rank)
    for axis, (extent, count) in enumerate(zip(image[2:], result[2:], strict=True)):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        read = (count - 1) * strides[axis] + reach
        pads[rank + axis] = max(pads[rank + axis], read - extent - pads[axis])
    node.attributes["pads"] = ir.AttrInt64s("pads", pads)
    del node.attributes["ceil_mode"]


_WRITERS: Mapping[str, Callable[[Steps], None]] = {
    "Gather": _gather,
    "GatherElements": _gather,
    "Gelu": _gelu,
    "LpPool": _lp_pool,
    "Mean": _mean,
    "RoiAlign": _roi_align,
}
