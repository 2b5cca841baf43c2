"""Access rules of operators: the elements of inputs needed for some elements of an output."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

from tvm_ios.graph.elements import Operator
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.operators import ELEMENT_WISE
from tvm_ios.graphturbo.box import Box, volume, whole

Shapes = Sequence[tuple[int, ...]]
Range = tuple[int, int]
#: For each input the box that is read, or None.
Needs = tuple[Box | None, ...]


def needed(graph: OpGraph, op: int, position: int, box: Box) -> Needs:
    """Return the smallest box of each input that is sure to determine a box of an output.

    ``position`` is the place of the output among the operator's. The result is None for an input
    that is not read. Operators of unknown kinds need all of every input.
    """
    operator = graph.operators[op]
    shapes = [graph.tensors[tensor].shape for tensor in operator.inputs]
    rule = _RULES.get(operator.kind)
    if rule is None:
        return tuple(map(whole, shapes))
    outputs = [graph.tensors[tensor].shape for tensor in operator.outputs]
    return rule(operator, shapes, outputs, position, box)


def _integers(op: Operator, name: str) -> tuple[int, ...]:
    return cast(tuple[int, ...], op.attrs[name])


def _integer(op: Operator, name: str) -> int:
    return cast(int, op.attrs[name])


def _broadcast(box: Box, shape: tuple[int, ...]) -> Box:
    """Return the box needed of an input whose axes are aligned with the last ones of the result."""
    last = box[len(box) - len(shape) :]
    return tuple((0, 1) if n == 1 else part for n, part in zip(shape, last, strict=True))


def _element_wise(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    return tuple(_broadcast(box, shape) for shape in shapes)


def _first_aligned(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    """Return the result's box for the first input, but whole along axes that are reduced over."""
    reduced = (
        _integers(op, "axes")
        if "axes" in op.attrs
        else (_integer(op, "axis"),)
        if "axis" in op.attrs
        else (1,)  # lrn
    )
    data = tuple(
        (0, extent) if axis in reduced else box[axis] for axis, extent in enumerate(shapes[0])
    )
    return (data, *map(whole, shapes[1:]))


def _bias(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    return (box, *map(whole, shapes[1:]))


def _window(out: Range, extent: int, kernel: int, stride: int, pad: int, dilation: int) -> Range:
    begin = out[0] * stride - pad
    end = (out[1] - 1) * stride - pad + (kernel - 1) * dilation + 1
    begin, end = max(0, begin), min(extent, end)
    # A window of padding alone still gets one row, so that boxes are never empty.
    return (begin, end) if begin < end else (min(begin, extent - 1), min(begin, extent - 1) + 1)


def _channels(out: Range, outputs: int, read: int, groups: int) -> Range:
    """Return the input channels of the groups that some output channels lie in."""
    outputs_each, inputs_each = outputs // groups, read // groups
    return out[0] // outputs_each * inputs_each, ((out[1] - 1) // outputs_each + 1) * inputs_each


def _spatial(op: Operator, box: Box, shape: tuple[int, ...], kernel: Sequence[int]) -> list[Range]:
    strides, pads = _integers(op, "strides"), _integers(op, "pads")
    dilations = _integers(op, "dilations") if "dilations" in op.attrs else (1, 1)
    return [
        _window(box[2 + i], shape[2 + i], kernel[i], strides[i], pads[i], dilations[i])
        for i in range(2)
    ]


def _conv(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    data, weight = shapes[0], shapes[1]
    channels = _channels(box[1], results[0][1], data[1], _integer(op, "group"))
    needs = (box[0], channels, *_spatial(op, box, data, weight[2:]))
    return (needs, (box[1], *whole(weight[1:])), *map(whole, shapes[2:]))


def _conv_transpose(
    op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box
) -> Needs:
    data, weight = shapes[0], shapes[1]
    channels = _channels(box[1], results[0][1], data[1], _integer(op, "group"))
    strides, pads, dilations = (_integers(op, n) for n in ("strides", "pads", "dilations"))
    spatial: list[Range] = []
    for i in range(2):
        reach = (weight[2 + i] - 1) * dilations[i]
        begin = max(0, -((reach - box[2 + i][0] - pads[i]) // strides[i]))
        end = min(data[2 + i], (box[2 + i][1] - 1 + pads[i]) // strides[i] + 1)
        first = min(begin, data[2 + i] - 1)
        spatial.append((begin, end) if begin < end else (first, first + 1))
    return ((box[0], channels, *spatial), *map(whole, shapes[1:]))


def _pool(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    return ((box[0], box[1], *_spatial(op, box, shapes[0], _integers(op, "kernel"))),)


def _mean(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    axes, keepdims = _integers(op, "axes"), bool(op.attrs["keepdims"])
    left = iter(box)
    needs: list[Range] = []
    for axis, extent in enumerate(shapes[0]):
        if axis not in axes:
            needs.append(next(left))
            continue
        needs.append((0, extent))
        if keepdims:
            next(left)
    return (tuple(needs),)


def _dense(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    data, weight = shapes[0], shapes[1]
    return ((*box[:-1], (0, data[-1])), ((0, weight[0]), box[-1]))


def _matmul(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    a, b = shapes
    if min(len(a), len(b)) < 2:
        return tuple(map(whole, shapes))
    batch = box[:-2]
    return (
        (*_broadcast(batch, a[:-2]), box[-2], (0, a[-1])),
        (*_broadcast(batch, b[:-2]), (0, b[-2]), box[-1]),
    )


def _concat(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    axis, start = _integer(op, "axis"), 0
    needs: list[Box | None] = []
    for shape in shapes:
        begin = max(box[axis][0] - start, 0)
        end = min(box[axis][1] - start, shape[axis])
        needs.append((*box[:axis], (begin, end), *box[axis + 1 :]) if begin < end else None)
        start += shape[axis]
    return tuple(needs)


def _split(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    axis = _integer(op, "axis")
    start = sum(_integers(op, "sizes")[:position])
    moved = (box[axis][0] + start, box[axis][1] + start)
    return ((*box[:axis], moved, *box[axis + 1 :]),)


def _slice(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    needs = list(box)
    axes, starts, steps = (_integers(op, name) for name in ("axes", "starts", "steps"))
    for axis, start, step in zip(axes, starts, steps, strict=True):
        first, last = start + box[axis][0] * step, start + (box[axis][1] - 1) * step
        needs[axis] = (min(first, last), max(first, last) + 1)
    return (tuple(needs),)


def _pad(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    before = _integers(op, "pads")[: len(box)]
    moved = tuple(
        (max(0, begin - pad), min(extent, end - pad))
        for (begin, end), pad, extent in zip(box, before, shapes[0], strict=True)
    )
    return (moved if all(begin < end for begin, end in moved) else None,)


def _reshape(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    """Return the box needed, by axes of both shapes, or by runs of axes that are joined or cut."""
    source, target = shapes[0], results[0]
    needs: list[Range] = []
    i = j = 0
    while i < len(source) or j < len(target):
        begin_i, begin_j = i, j
        source_size = target_size = 1
        while source_size != target_size or (i == begin_i and j == begin_j):
            if (source_size <= target_size and i < len(source)) or j == len(target):
                source_size, i = source_size * source[i], i + 1
            else:
                target_size, j = target_size * target[j], j + 1
        needs += _rows(source[begin_i:i], target[begin_j:j], box[begin_j:j])
    return (tuple(needs),)


def _rows(source: tuple[int, ...], target: tuple[int, ...], box: Box) -> list[Range]:
    """Return the box of one run: from its first to its last element in memory."""
    first = last = 0
    for extent, (begin, end) in zip(target, box, strict=True):
        first, last = first * extent + begin, last * extent + end - 1
    needs: list[Range] = []
    inner = math.prod(source)
    for extent in source:
        inner //= extent
        begin, end = first // inner, last // inner
        inside = begin // extent == end // extent
        needs.append((begin % extent, end % extent + 1) if inside else (0, extent))
    return needs


def _transpose(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    perm = _integers(op, "perm")
    return (tuple(box[perm.index(axis)] for axis in range(len(perm))),)


#: Up-sampling that repeats pixels.
_REPEATED = ["nearest", "asymmetric", "floor"]


def _resize(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    data, size = shapes[0], _integers(op, "size")
    reach = {"nearest": 1, "linear": 1, "cubic": 2}.get(str(op.attrs["mode"]))
    if reach is None:
        return tuple(map(whole, shapes))
    needs = list(box[:2])
    for extent, result, (begin, end) in zip(data[2:], size, box[2:], strict=True):
        if [op.attrs.get(n) for n in ("mode", "coordinates", "rounding")] == _REPEATED:
            needs.append((begin * extent // result, (end - 1) * extent // result + 1))
            continue
        # The ways to map coordinates differ by less than a pixel of the smaller image.
        scale = extent / result
        slack = reach + max(1, math.ceil(scale))
        first, last = math.floor(begin * scale) - slack, math.ceil(end * scale) + slack
        needs.append((max(0, first), min(extent, last)))
    return (tuple(needs),)


def _gather(op: Operator, shapes: Shapes, results: Shapes, position: int, box: Box) -> Needs:
    axis, (data, indices) = _integer(op, "axis"), shapes
    end = axis + len(indices)
    return ((*box[:axis], (0, data[axis]), *box[end:]), box[axis:end])


_Rule = Callable[[Operator, Shapes, Shapes, int, Box], Needs]
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(ELEMENT_WISE | {"cast"}, _element_wise),
    **dict.fromkeys(("softmax", "layer_norm", "lrn"), _first_aligned),
    **dict.fromkeys(("max_pool2d", "avg_pool2d"), _pool),
    "bias_add": _bias,
    "conv2d": _conv,
    "conv2d_transpose": _conv_transpose,
    "mean": _mean,
    "dense": _dense,
    "matmul": _matmul,
    "concat": _concat,
    "split": _split,
    "slice": _slice,
    "pad": _pad,
    "reshape": _reshape,
    "transpose": _transpose,
    "resize2d": _resize,
    "gather": _gather,
}


def flops_of(graph: OpGraph, op: int, position: int, box: Box) -> float:
    """Return the floating-point operations for some elements of an output."""
    operator = graph.operators[op]
    shape = graph.tensors[operator.outputs[position]].shape
    return operator.flops * volume(box) / math.prod(shape)
