"""Rewrite Fourier transforms as products with a constant matrix, in double precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from tvm_ios.files.array_files import Array
from tvm_ios.onnx.edit import constant
from tvm_ios.onnx.rewrites.steps import Steps, static_shape

#: Larger matrices, of 32 MiB, are no way to transform.
_MOST_FACTORS = 1 << 22


def _transform(steps: Steps) -> None:
    inputs: list[Any] = [*steps.node.inputs, None, None]
    source, length_input, axis_input = inputs[:3]
    extents, stated = static_shape(source), [constant(value) for value in inputs[1:3]]
    if extents is None or any(
        value is not None and array is None
        for value, array in zip((length_input, axis_input), stated, strict=True)
    ):
        return
    length, axis = (None if array is None else int(array.item()) for array in stated)
    if axis is None:
        axis = steps.integer("axis", 1) if steps.opset < 20 else -2
    axis %= len(extents)
    inverse, onesided = (bool(steps.integer(name, 0)) for name in ("inverse", "onesided"))
    if length is None:
        length = 2 * (extents[axis] - 1) if inverse and onesided else extents[axis]
    order = [i for i in range(len(extents)) if i != axis]
    order.insert(-1, axis)
    rows = steps.transposed(steps.cast(source, ir.DataType.DOUBLE), order)
    result = _product(steps, rows, [extents[i] for i in order], length, inverse, onesided)
    if result is not None:
        turned = steps.transposed(result, np.argsort(order).tolist())
        turned.dtype = ir.DataType.DOUBLE
        steps.stand_for(steps.cast(turned, source.dtype))


def _short_time_transform(steps: Steps) -> None:
    """Write ``STFT`` as the transform of windowed frames of the signal."""
    inputs: list[Any] = [*steps.node.inputs, None, None]
    source, step_input, window, length_input = inputs[:4]
    extents, step, stated = static_shape(source), constant(step_input), constant(length_input)
    if extents is None or step is None or (stated is None and length_input is not None):
        return
    weights = None if window is None else static_shape(window)
    length = extents[1]
    if stated is not None:
        length = int(stated.item())
    elif window is not None:
        if weights is None:
            return
        (length,) = weights
    begins = np.arange(0, extents[1] - length + 1, int(step.item()))
    places = begins[:, None] + np.arange(length)
    signal = steps.cast(source, ir.DataType.DOUBLE)
    frames = steps.op("Gather", signal, steps.number(places), axis=1)
    if window is not None:
        column = steps.unsqueezed(steps.cast(window, ir.DataType.DOUBLE), 1)
        frames = steps.op("Mul", frames, column)
    shape = [extents[0], len(begins), length, *extents[2:]]
    result = _product(steps, frames, shape, length, False, bool(steps.integer("onesided", 1)))
    if result is not None:
        result.dtype = ir.DataType.DOUBLE
        steps.stand_for(steps.cast(result, source.dtype))


def _product(
    steps: Steps, rows: Any, extents: list[int], length: int, inverse: bool, onesided: bool
) -> Any:
    """Return the transform along the last axis but one; the last holds real and imaginary parts.

    Return None if the matrix would be too large.
    """
    *batch, count, parts = extents
    if 2 * count * parts * length > _MOST_FACTORS:
        return None
    matrix = _matrix(count, parts, length, inverse, onesided)
    flat = steps.op("Reshape", rows, steps.number([-1, count * parts]))
    result = steps.op("MatMul", flat, steps.number(matrix.reshape(count * parts, -1)))
    return steps.op("Reshape", result, steps.number([*batch, *matrix.shape[1:]]))


def _matrix(count: int, parts: int, length: int, inverse: bool, onesided: bool) -> Array:
    """Return the transform's matrix, of shape (input numbers, results, parts of a result)."""
    units = np.eye(count * parts).reshape(-1, count, parts)
    row = units[..., 0] + 1j * units[..., 1] if parts == 2 else units[..., 0]
    if inverse and onesided:
        return np.fft.irfft(row, length)[..., None]
    result = np.fft.ifft(row, length) if inverse else np.fft.fft(row, length)
    result = result[:, : length // 2 + 1] if onesided else result
    return np.stack([result.real, result.imag], axis=-1)


FOURIER: Mapping[str, Callable[[Steps], None]] = {
    "DFT": _transform,
    "STFT": _short_time_transform,
}
