"""Pools with ``ceil_mode``: rewrite those with windows that begin in the padding at the end."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.rewrites.steps import Steps, static_shape
from tvm_ios.onnx.shape_inference import infer_shapes


def leave_out_windows_of_padding(model: Any) -> None:
    """Narrow the padding, or the image, so that no window begins in the padding at the end.

    ONNX and all runtimes leave such a window out, but ONNX's shape inference before opset 22 and
    TVM's Relay importer count it. Shapes after such a pool are inferred again.
    """
    graph, opset = model.graph, model.opset_imports.get("", 0)
    if not any(map(_rounds_up, graph)):
        return
    infer_shapes(model)
    nodes = list(graph)
    for place, node in enumerate(nodes):
        ends = _ends(node)
        if not ends:
            continue
        _narrow(Steps(graph, node, opset), ends)
        for later in nodes[place:]:
            for value in later.outputs:
                value.shape = None
        infer_shapes(model)


def require_no_windows_of_padding(graph: Any) -> None:
    """Require that no pool has a window that begins in the padding, or raise GraphError.

    It finds pools whose shapes :func:`leave_out_windows_of_padding` did not know.
    """
    for node in graph:
        if _ends(node):
            raise GraphError(
                f"{node.op_type} {node.name!r} has a window that begins in the padding, of an "
                "image whose shape is computed: export the model with ceil_mode=0"
            )


def _rounds_up(node: Any) -> bool:
    return (
        node.op_type in ("AveragePool", "LpPool", "MaxPool")
        and node.domain in ("", "ai.onnx")
        and node.attributes.get_int("ceil_mode", 0) == 1
        and node.attributes.get_string("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    )


def _ends(node: Any) -> dict[int, int]:
    """Return the end padding of each such axis without the window; negative values crop."""
    image = static_shape(node.inputs[0]) if _rounds_up(node) else None
    if image is None:
        return {}
    get, rank = node.attributes.get_ints, len(image) - 2
    pads, kernel = get("pads", [0] * 2 * rank), get("kernel_shape")
    strides, dilations = get("strides", [1] * rank), get("dilations", [1] * rank)
    ends: dict[int, int] = {}
    for axis, (extent, stride) in enumerate(zip(image[2:], strides, strict=True)):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        begin, end = pads[axis], pads[rank + axis]
        last = -(-(begin + extent + end - reach) // stride) * stride
        if extent and last >= begin + extent:
            ends[axis] = last - stride + reach - begin - extent
    return ends


def _narrow(steps: Steps, ends: dict[int, int]) -> None:
    node, image = steps.node, static_shape(steps.node.inputs[0]) or []
    cut = [axis for axis, end in ends.items() if end < 0]
    if cut and len(node.outputs) > 1:
        raise GraphError(
            f"{node.op_type} {steps.name!r} has a window that begins after the image, and counts "
            "pixels in rows that no window reads: export the model with ceil_mode=0"
        )
    if cut:
        bounds = ([0] * len(cut), [image[a + 2] + ends[a] for a in cut], [a + 2 for a in cut])
        rows = [steps.number(row) for row in bounds]
        node.replace_input_with(0, steps.op("Slice", node.inputs[0], *rows))
    rank = len(image) - 2
    pads = steps.integers("pads", [0] * 2 * rank)
    for axis, end in ends.items():
        pads[rank + axis] = max(end, 0)
    if any(pads):
        node.attributes["pads"] = ir.AttrInt64s("pads", pads)
