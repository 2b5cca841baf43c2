"""ONNX operators that TVM's importer for Relay reads wrongly, written in others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi, prod, sqrt

import onnx
import onnx_ir as ir

from tvm_ios.onnx.rewrites.pads import explicit_pads
from tvm_ios.onnx.rewrites.steps import Steps, static_shape


def rewritten(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model whose operators of :data:`_WRITERS` are written out.

    Parameters
    ----------
    model
        Simplified; it is not changed.
    """
    if not any(node.op_type in _WRITERS for node in model.graph.node):
        return model
    work = ir.serde.deserialize_model(model)
    for node in list(work.graph):
        if node.op_type in _WRITERS and node.domain == "":
            _WRITERS[node.op_type](Steps(work.graph, node, work.opset_imports[""]))
    return ir.serde.serialize_model(work)


def _gelu(steps: Steps) -> None:
    """The importer ignores ``approximate``."""
    (source,) = steps.node.inputs
    if steps.node.attributes.get_string("approximate", "none") != "tanh":
        return
    cube = steps.op("Mul", steps.op("Mul", source, source), source)
    inside = steps.op("Add", source, steps.op("Mul", cube, steps.number(0.044715)))
    curve = steps.op("Tanh", steps.op("Mul", inside, steps.number(sqrt(2 / pi))))
    half = steps.op("Mul", source, steps.number(0.5))
    steps.stand_for(steps.op("Mul", half, steps.op("Add", curve, steps.number(1.0))))


def _lp_pool(steps: Steps) -> None:
    """The importer takes powers of numbers that may be negative, and ignores what is padded."""
    (source,), attributes = steps.node.inputs, steps.attributes
    p = float(attributes.pop("p", 2))
    powers = steps.op("Pow", steps.op("Abs", source), steps.number(p), like=source)
    result = steps.node.outputs[0]
    means = steps.op("AveragePool", powers, like=result, count_include_pad=1, **attributes)
    explicit_pads(steps.graph, means.producer(), steps.opset)
    _no_window_of_pads(Steps(steps.graph, means.producer(), steps.opset))
    sums = steps.op("Mul", means, steps.number(float(prod(attributes["kernel_shape"]))))
    steps.stand_for(steps.op("Pow", sums, steps.number(1 / p)))


def _no_window_of_pads(steps: Steps) -> None:
    """TVM's pools have a last window, rounded up, also where it begins after the image.

    Where ONNX leaves such windows out, those that it has are said by the padding alone.
    """
    node, get = steps.node, steps.node.attributes.get_ints
    image, result = static_shape(node.inputs[0]), static_shape(node.outputs[0])
    if not node.attributes.get_int("ceil_mode", 0) or image is None or result is None:
        return
    kernel, rank = get("kernel_shape"), len(image) - 2
    strides, dilations = get("strides", [1] * rank), get("dilations", [1] * rank)
    pads = list(get("pads", [0] * 2 * rank))
    has_fewer = False
    for axis, (extent, count) in enumerate(zip(image[2:], result[2:], strict=True)):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        beyond = extent + pads[axis] + pads[rank + axis] - reach
        has_fewer |= count < -(-beyond // strides[axis]) + 1
        pads[rank + axis] += max(0, (count - 1) * strides[axis] - beyond)
    if has_fewer:
        del node.attributes["ceil_mode"]
        node.attributes["pads"] = ir.AttrInt64s("pads", pads)


_WRITERS: Mapping[str, Callable[[Steps], None]] = {
    "AveragePool": _no_window_of_pads,
    "Gelu": _gelu,
    "LpPool": _lp_pool,
    "MaxPool": _no_window_of_pads,
}
