"""Rewrite operators on image windows as gathers from constant positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.graph.elements import GraphError
from tvm_ios.onnx.edit import constant, node_text
from tvm_ios.onnx.rewrites.pads import explicit_pads
from tvm_ios.onnx.rewrites.steps import Steps, static_shape


def _col2im(steps: Steps) -> None:
    """Write ``Col2Im``: each pixel is the sum of the gathered column entries that cover it."""
    source, image_input, block_input = steps.node.inputs
    image, block = constant(image_input), constant(block_input)
    extents = static_shape(source)
    if extents is None or image is None or block is None:
        return
    windows = _window_places(steps, image.tolist(), block.tolist())
    # For each pixel, where in a channel's rows of all windows its numbers are; the last is a zero.
    count, columns = windows.shape
    lying: list[list[int]] = [[] for _ in range(int(image.prod()))]
    for place, window in zip(*np.nonzero(windows.T >= 0), strict=True):
        lying[windows[window, place]].append(place * count + window)
    most = max(map(len, lying))
    table = np.array([[*places, *[columns * count] * (most - len(places))] for places in lying])
    planes = [extents[0], extents[1] // columns]
    rows = steps.op("Reshape", source, steps.number([*planes, columns * count]))
    zeros = steps.number(np.zeros((*planes, 1), source.dtype.numpy()))
    rows = steps.op("Concat", rows, zeros, axis=2)
    parts = steps.op("Gather", rows, steps.number(np.ascontiguousarray(table.T)), axis=2)
    total = steps.summed(parts, [2])
    steps.stand_for(steps.op("Reshape", total, steps.number([*planes, *image.tolist()])))


def _max_pool(steps: Steps) -> None:
    """Write a max pool whose indices are read, which TVM's importer lacks, as gathered windows."""
    node = steps.node
    if len(node.outputs) < 2 or not (node.outputs[1].uses() or node.outputs[1].is_graph_output()):
        return
    explicit_pads(steps.graph, node, steps.opset)
    (source,) = node.inputs
    extents, result = static_shape(source), static_shape(node.outputs[0])
    if extents is None or result is None:
        return
    planes, image = extents[:2], extents[2:]
    windows = _window_places(steps, image, steps.integers("kernel_shape"), result[2:])
    dtype, size = source.dtype.numpy(), prod(image)
    lowest = -np.inf if source.dtype.is_floating_point() else np.iinfo(dtype).min
    # The pixels of a plane, and after them one that is never the largest.
    table = steps.number(np.where(windows < 0, size, windows))
    pixels = steps.op("Reshape", source, steps.number([*planes, size]))
    filler = steps.number(np.full((*planes, 1), lowest, dtype))
    pixels = steps.op("Concat", pixels, filler, axis=2)
    parts = steps.op("Gather", pixels, table, axis=2)
    most = steps.reduced("ReduceMax", parts, [3], keepdims=1)
    # Of equal pixels, and of those that are NaN, the first one counts.
    equal = steps.op("Equal", parts, most)
    if source.dtype.is_floating_point():
        equal = steps.op("Or", equal, steps.op("Not", steps.op("Equal", parts, parts)))
    places = steps.op("Where", equal, table, steps.number([size]))
    first = steps.reduced("ReduceMin", places, [3], keepdims=0)
    # In column-major order pixels are numbered as those of the image transposed.
    numbers = np.arange(size).reshape(image)
    if steps.integer("storage_order", 0):
        numbers = np.arange(size).reshape(image[::-1]).T
    index = steps.op("Gather", steps.number(np.append(numbers.reshape(-1), 0)), first, axis=0)
    begins = np.arange(prod(planes)).reshape(*planes, 1) * size
    index = steps.op("Add", index, steps.number(begins))
    largest = steps.op("MaxPool", source, **steps.attributes)
    steps.stand_for(largest, steps.op("Reshape", index, steps.number(result)))


def _max_unpool(steps: Steps) -> None:
    """Write ``MaxUnpool`` as a scatter. TVM ignores ``output_shape`` and misreads pads."""
    inputs: list[Any] = [*steps.node.inputs, None]
    source, index, size = inputs[:3]
    extents = static_shape(source)
    if extents is None or source.dtype is None:
        return
    kernel = steps.integers("kernel_shape")
    rank = len(kernel)
    strides = steps.integers("strides", [1] * rank)
    pads = steps.integers("pads", [0] * 2 * rank)
    image = [
        (extents[2 + i] - 1) * strides[i] + kernel[i] - pads[i] - pads[rank + i]
        for i in range(rank)
    ]
    shape = [*extents[:2], *image]
    wanted = constant(size)
    if size is not None and (wanted is None or wanted.tolist() != shape):
        raise GraphError(
            f"{node_text(steps.node)} makes another shape than {shape}, which follows from its "
            "windows: ONNX's example and runtimes then count pixels otherwise, so export the model "
            "without output_shape"
        )
    zeros = steps.number(np.zeros(prod(shape), source.dtype.numpy()))
    rows = [steps.op("Reshape", value, steps.number([-1])) for value in (index, source)]
    spread = steps.op("ScatterElements", zeros, *rows, axis=0)
    steps.stand_for(steps.op("Reshape", spread, steps.number(shape)))


def _window_places(
    steps: Steps, image: Sequence[int], kernel: Sequence[int], counts: Sequence[int] | None = None
) -> Array:
    """Return the row-major pixel numbers of each window, -1 outside the image.

    The result has shape (windows, pixels of a window). Strides, pads and dilations are the
    operator's. Without ``counts``, the numbers of windows per axis, there are as many as fit.
    """
    rank = len(image)
    strides = steps.integers("strides", [1] * rank)
    dilations = steps.integers("dilations", [1] * rank)
    pads = steps.integers("pads", [0] * 2 * rank)
    if counts is None:
        reaches = [dilations[i] * (kernel[i] - 1) + 1 for i in range(rank)]
        padded = [image[i] + pads[i] + pads[rank + i] for i in range(rank)]
        counts = [(padded[i] - reaches[i]) // strides[i] + 1 for i in range(rank)]
    places = np.zeros((*counts, *kernel), np.int64)
    inside = np.ones(places.shape, bool)
    for i in range(rank):
        begins = np.arange(counts[i]) * strides[i] - pads[i]
        along = begins[:, None] + np.arange(kernel[i]) * dilations[i]
        shape = [1] * 2 * rank
        shape[i], shape[rank + i] = along.shape
        along = along.reshape(shape)
        inside &= (along >= 0) & (along < image[i])
        places = places * image[i] + along
    return np.where(inside, places, -1).reshape(prod(counts), prod(kernel))


WINDOWS: Mapping[str, Callable[[Steps], None]] = {
    "Col2Im": _col2im,
    "MaxPool": _max_pool,
    "MaxUnpool": _max_unpool,
}
