"""Write an operator for a part of its results: fewer images, or some of their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

from relay_passes.dialect import DialectError
from relay_passes.emitter import Emitter
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.access import needed
from tvm_ios.graphturbo.box import Box, extents, hull, whole


def emit_part(
    emitter: Emitter, graph: OpGraph, op: int, values: dict[int, Any], boxes: Mapping[int, Box]
) -> None:
    """Write operator ``op`` of a graph for boxes of its results.

    ``boxes`` says which box of each tensor ``values`` has, and which is wanted of the results;
    constants are whole. The inputs are cut to the boxes that the operator reads, and windows are
    padded only at the border of the whole image. The results are added to ``values``. Raise
    DialectError if the operator states extents that cannot be changed, or if a constant that must
    be cut is a parameter.
    """
    operator = graph.operators[op]
    result_boxes = {t: boxes[t] for t in operator.outputs if t in boxes}
    if not result_boxes:
        return
    if operator.kind == "slice":
        # The input is cut and sliced at once.
        (read,), (tensor,) = operator.inputs, operator.outputs
        box = reads(graph, op, result_boxes)[read]
        axes, along = (cast(tuple[int, ...], operator.attrs[name]) for name in ("axes", "steps"))
        steps = dict(zip(axes, along, strict=True))
        values[tensor] = cut(emitter, values[read], available_box(graph, boxes, read), box, steps)
        return
    inputs = dict(values)
    for tensor, box in reads(graph, op, result_boxes).items():
        available = available_box(graph, boxes, tensor)
        if box == available:
            continue
        if graph.tensors[tensor].constant:
            at = tuple(slice(begin, end) for begin, end in box)
            inputs[tensor] = emitter.constant_part(values[tensor], at)
            if inputs[tensor] is None:
                raise _written_down(graph, next(iter(result_boxes)))
        else:
            inputs[tensor] = cut(emitter, values[tensor], available, box)
    shapes = {t: extents(box) for t, box in result_boxes.items()}
    pads = None
    if operator.kind in _WINDOWED:
        ((tensor, box),) = result_boxes.items()
        if box[2:] != whole(graph.tensors[tensor].shape)[2:]:
            pads = _pads(graph, op, box)
    if operator.kind == "pad":
        ((tensor, box),) = result_boxes.items()
        pads = _pad_widths(graph, op, box)
    if operator.kind == "reshape":
        (tensor,) = result_boxes
        if prod(emitter.shape(inputs[operator.inputs[0]])) != prod(shapes[tensor]):
            raise _written_down(graph, tensor)
    emitter.operator(op, inputs, shapes, pads)
    for tensor, shape in shapes.items():
        if emitter.shape(inputs[tensor]) != shape:
            raise _written_down(graph, tensor)
        values[tensor] = inputs[tensor]


def cut(
    emitter: Emitter, value: Any, available: Box, box: Box, steps: Mapping[int, int] | None = None
) -> Any:
    """Return a box of a tensor, sliced from a value that holds the larger box ``available``.

    ``steps`` gives strides by axis; a negative one reverses the axis.
    """
    steps = steps or {}
    axes = [axis for axis in range(len(box)) if available[axis] != box[axis] or axis in steps]
    if not axes:
        return value
    begins, ends = list[int](), list[int]()
    for axis in axes:
        (begin, end), (first, last) = box[axis], available[axis]
        if steps.get(axis, 1) > 0:
            begins.append(begin - first)
            ends.append(end - first)
        else:
            begins.append(end - 1 - first)
            # The end before the first element must be given as a negative number.
            ends.append(begin - 1 - first if begin > first else first - last - 1)
    along = [steps.get(axis, 1) for axis in axes]
    return emitter.sliced(value, axes, begins, ends, along)


def available_box(graph: OpGraph, boxes: Mapping[int, Box], tensor: int) -> Box:
    """Return the box of a tensor that can be read: all of a constant, else its entry of boxes."""
    described = graph.tensors[tensor]
    return whole(described.shape) if described.constant else boxes[tensor]


_WINDOWED = frozenset({"conv2d", "max_pool2d", "avg_pool2d"})


def reads(graph: OpGraph, op: int, result_boxes: Mapping[int, Box]) -> dict[int, Box]:
    """Return the box of each input that an operator reads to compute boxes of its results."""
    operator = graph.operators[op]
    input_boxes: dict[int, Box] = {}
    for position, tensor in enumerate(operator.outputs):
        if tensor not in result_boxes:
            continue
        needs = needed(graph, op, position, result_boxes[tensor])
        for read, box in zip(operator.inputs, needs, strict=True):
            if box is None:
                raise _written_down(graph, tensor)
            input_boxes[read] = hull(input_boxes.get(read), box)
    return input_boxes


def _pads(graph: OpGraph, op: int, box: Box) -> list[int]:
    """Return the padding (top, left, bottom, right) that windows of a box of an operator reach."""
    operator = graph.operators[op]
    shapes = [graph.tensors[t].shape for t in operator.inputs]
    strides, pads, dilations, kernel = (
        cast(tuple[int, ...], operator.attrs.get(name))
        for name in ("strides", "pads", "dilations", "kernel")
    )
    window = (kernel or shapes[1][2:], strides, pads, dilations or (1, 1))
    return pads_of(box, shapes[0][2:], *window)


def _pad_widths(graph: OpGraph, op: int, box: Box) -> list[int]:
    """Return the padding of a pad operator that lies in a box: before and after, axis by axis."""
    operator = graph.operators[op]
    before = cast(tuple[int, ...], operator.attrs["pads"])
    extents = graph.tensors[operator.inputs[0]].shape
    return [
        width
        for (begin, end), pad, extent in zip(box, before, extents, strict=False)
        for width in (max(0, pad - begin), max(0, end - pad - extent))
    ]


def pads_of(
    box: Box,
    extents: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:
    """Return the padding (top, left, bottom, right) that the windows of a result's box reach.

    ``extents`` are the height and width of the whole input; kernel, strides, pads and dilations are
    those of the window.
    """
    before, after = [0, 0], [0, 0]
    for i, (begin, end) in enumerate(box[2:]):
        reach = (kernel[i] - 1) * dilations[i] + 1
        before[i] = max(0, pads[i] - begin * strides[i])
        after[i] = max(0, (end - 1) * strides[i] - pads[i] + reach - extents[i])
    return [*before, *after]


def _written_down(graph: OpGraph, tensor: int) -> DialectError:
    name = graph.tensors[tensor].name
    return DialectError(
        f"no part of {name!r} can be computed alone: its extents are written down in the operator "
        "that makes it"
    )
