"""Rewrite deformable convolutions as samples and a matrix product."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tvm_ios.onnx.rewrites.steps import Steps, static_shape


def deformable_convolution(steps: Steps) -> None:
    """Write a ``DeformConv`` of images as ``GridSample`` and a matrix product."""
    inputs: list[Any] = [*steps.node.inputs, None, None]
    source, weight, offset, bias, mask = inputs[:5]
    shapes = [static_shape(value) or [] for value in (source, weight, offset)]
    if source.dtype is None or any(len(shape) != 4 for shape in shapes):
        return
    (batch, channels, height, width), (results, _, *kernel), (*_, rows, columns) = shapes
    groups, offset_groups = (steps.integer(name, 1) for name in ("group", "offset_group"))
    strides, dilations = (steps.integers(name, [1, 1]) for name in ("strides", "dilations"))
    pads = steps.integers("pads", [0, 0, 0, 0])
    points, pixels = kernel[0] * kernel[1], rows * columns
    # Where each point of the kernel lies without an offset, for each pixel of the result: (y, x).
    begins = np.array(list(product(range(rows), range(columns)))) * strides - pads[:2]
    reaches = np.array(list(product(range(kernel[0]), range(kernel[1])))) * dilations
    places = (begins + reaches[:, None]).astype(source.dtype.numpy())
    split = [batch * offset_groups, points, 2, pixels]
    moved = steps.op("Reshape", offset, steps.number(split))
    moved = steps.op("Transpose", moved, perm=[0, 1, 3, 2])
    moved = steps.op("Add", moved, steps.number(places))
    # GridSample's x comes first, and -1 and 1 are the borders of the image.
    grid = steps.op("Gather", moved, steps.number([1, 0]), axis=3)
    extents = np.array([width, height])
    factor, shift = 2 / extents, 1 / extents - 1
    grid = steps.op("Mul", grid, steps.number(factor.astype(places.dtype)))
    grid = steps.op("Add", grid, steps.number(shift.astype(places.dtype)))
    images = [batch * offset_groups, channels // offset_groups, height, width]
    image = steps.op("Reshape", source, steps.number(images))
    mode = "linear" if steps.opset >= 20 else "bilinear"
    samples = steps.op("GridSample", image, grid, mode=mode, padding_mode="zeros", align_corners=0)
    if mask is not None:
        shape = [batch * offset_groups, 1, points, pixels]
        samples = steps.op("Mul", samples, steps.op("Reshape", mask, steps.number(shape)))
    inner = channels // groups * points
    right = steps.op("Reshape", samples, steps.number([batch, groups, inner, pixels]))
    left = steps.reshaped(weight, [], [groups, results // groups, inner])
    result = steps.op("MatMul", left, right)
    result = steps.op("Reshape", result, steps.number([batch, results, rows, columns]))
    if bias is not None:
        result = steps.op("Add", result, steps.reshaped(bias, [], [results, 1, 1]))
    steps.stand_for(result)
