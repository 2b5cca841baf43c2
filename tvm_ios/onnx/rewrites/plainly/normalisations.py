"""Rewrite normalisations and determinants with operators for which there are kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvm_ios.onnx.rewrites.steps import Steps


def _lp_normalization(steps: Steps) -> None:
    """Write ``LpNormalization`` as a division by the norm, or by 1 where it is zero."""
    (source,) = steps.node.inputs
    if source.dtype is None:
        return
    axis = steps.integer("axis", -1)
    kind = f"ReduceL{steps.integer('p', 2)}"
    norm = steps.reduced(kind, source, [axis], keepdims=1)
    zero, one = (steps.number(np.array(n, source.dtype.numpy())) for n in (0, 1))
    divisor = steps.op("Where", steps.op("Equal", norm, zero), one, norm)
    steps.stand_for(steps.op("Div", source, divisor))


def _rms_normalization(steps: Steps) -> None:
    """Add a leading axis to an RMS norm of all axes, which TVM does not lower."""
    source, scale = steps.node.inputs
    attributes = steps.attributes
    if source.shape is None or not source.shape.is_static():
        return
    extents = list(source.shape)
    if attributes.get("axis", -1) % len(extents) > 0:
        return
    attributes["axis"] = -len(extents)
    rows = steps.reshaped(source, extents, [1, *extents])
    normalised = steps.op("RMSNormalization", rows, scale, **attributes)
    steps.stand_for(steps.reshaped(normalised, [1, *extents], extents))


def _batch_normalization(steps: Steps) -> None:
    """Write a batch norm in training mode, with the batch's statistics and moving averages."""
    node = steps.node
    if not steps.integer("training_mode", 0):
        return
    source, scale, bias, *running = node.inputs
    if source.shape is None or source.dtype is None:
        return
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    momentum = node.attributes.get_float("momentum", 0.9)
    rank = len(source.shape)
    axes = [axis for axis in range(rank) if axis != 1]
    mean = steps.reduced("ReduceMean", source, axes, keepdims=1)
    centred = steps.op("Sub", source, mean)
    square = steps.op("Mul", centred, centred)
    variance = steps.reduced("ReduceMean", square, axes, keepdims=1)
    root = steps.op("Sqrt", steps.op("Add", variance, steps.number(epsilon)))
    columns = steps.number([-1, *[1] * (rank - 2)])
    factor, shift = (steps.op("Reshape", value, columns) for value in (scale, bias))
    result = steps.op("Mul", steps.op("Div", centred, root), factor)
    results = [steps.op("Add", result, shift)]
    for old, new in zip(running, (mean, variance), strict=True):
        dtype = (old.dtype or source.dtype).numpy()
        kept, added = (steps.number(np.array(n, dtype)) for n in (momentum, 1 - momentum))
        current = steps.op("Reshape", new, steps.number([-1]))
        if old.dtype is not None and old.dtype != source.dtype:
            current = steps.cast(current, old.dtype)
        moved = [steps.op("Mul", old, kept), steps.op("Mul", current, added)]
        results.append(steps.op("Add", *moved))
    steps.stand_for(*results[: len(node.outputs)])


def _determinant(steps: Steps) -> None:
    """Write ``Det`` by elimination with the largest pivot of each column, as LAPACK does."""
    (source,) = steps.node.inputs
    if source.shape is None or not source.shape.is_static() or source.dtype is None:
        return
    *batch, extent, _ = source.shape
    rows_axis = len(batch)
    zero = steps.number(np.zeros((), source.dtype.numpy()))

    def part(value: Any, begin: int, end: int, axis: int) -> Any:
        return steps.op("Slice", value, *(steps.number([n]) for n in (begin, end, axis)))

    matrix, product = source, None
    for size in range(extent, 1, -1):
        column = part(matrix, 0, 1, rows_axis + 1)
        magnitude = steps.op("Abs", column)
        place = steps.op("ArgMax", magnitude, axis=rows_axis, keepdims=1)
        numbers = steps.number(np.arange(size).reshape(size, 1))
        is_pivot = steps.op("Equal", place, numbers)
        # The sum of one row and zeros is exactly that row.
        chosen = steps.op("Where", is_pivot, matrix, zero)
        pivot_row = steps.reduced("ReduceSum", chosen, [rows_axis], keepdims=1)
        pivot = part(pivot_row, 0, 1, rows_axis + 1)
        # The first row takes the pivot's place, which turns the sign.
        swapped = steps.op("Where", is_pivot, part(matrix, 0, 1, rows_axis), matrix)
        others = part(swapped, 1, size, rows_axis)
        first, rest = part(others, 0, 1, rows_axis + 1), part(others, 1, size, rows_axis + 1)
        # A column of zeros makes the product zero, whatever follows.
        singular = steps.op("Equal", pivot, zero)
        divisor = steps.op("Where", singular, steps.number(1.0), pivot)
        factor = steps.op("Div", first, divisor)
        right = part(pivot_row, 1, size, rows_axis + 1)
        matrix = steps.op("Sub", rest, steps.op("Mul", factor, right))
        top = steps.op("Equal", place, steps.number(np.zeros((), np.int64)))
        signed = steps.op("Where", top, pivot, steps.op("Neg", pivot))
        product = signed if product is None else steps.op("Mul", product, signed)
    product = matrix if product is None else steps.op("Mul", product, matrix)
    steps.stand_for(steps.summed(product, [rows_axis, rows_axis + 1]))


NORMALISATIONS: Mapping[str, Callable[[Steps], None]] = {
    "BatchNormalization": _batch_normalization,
    "Det": _determinant,
    "LpNormalization": _lp_normalization,
    "RMSNormalization": _rms_normalization,
}
