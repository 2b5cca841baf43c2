"""Transforms that prepare a model's constants for kernels: plain data, applied at build time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, cast

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.program.bfloat16 import bfloat16_bits
from tvm_ios.program.winograd import filterings, transformed_weights


@dataclass(frozen=True, slots=True)
class ParamTransform:
    """Steps that are applied to a constant, one after another."""

    #: ``("reshape", extents)``, ``("transpose", axes)``, ``("pad_parts", counts, multiple)`` (cut
    #: the first axis into parts of these counts and pad each with zeros to a multiple), ``("sums",
    #: factor)`` (of all numbers along the first axis, times the factor), ``("phases", strides,
    #: pads)``, see :func:`phase_taps`, ``("winograd", outputs)``, see
    #: :func:`tvm_ios.program.winograd.transformed_weights`, ``("astype", name)``, or
    #: ``("bfloat16",)``, see :func:`tvm_ios.program.bfloat16.bfloat16_bits`.
    steps: tuple[tuple[Any, ...], ...] = ()

    def apply(self, array: Array) -> Array:
        """Return the transformed constant, contiguous."""
        for step in self.steps:
            match step:
                case ("reshape", extents):
                    array = array.reshape(extents)
                case ("transpose", axes):
                    array = array.transpose(axes)
                case ("pad_parts", counts, multiple):
                    array = _pad_parts(array, counts, multiple)
                case ("sums", factor):
                    array = array.reshape(len(array), -1).sum(axis=1, dtype=np.float64) * factor
                case ("phases", strides, pads):
                    array = _phases(array, strides, pads)
                case ("winograd", outputs):
                    array = transformed_weights(array, outputs)
                case ("astype", name):
                    array = array.astype(name)
                case ("bfloat16",):
                    array = bfloat16_bits(array)
                case _:
                    raise ValueError(f"a constant's transform has the unknown step {step[0]!r}")
        return np.ascontiguousarray(array)

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape that a constant of this shape has after the transform."""
        result: tuple[int, ...] = tuple(shape)
        for step in self.steps:
            match step:
                case ("reshape", extents):
                    result = tuple(extents)
                case ("transpose", axes):
                    result = tuple(map(result.__getitem__, axes))
                case ("sums", _):
                    result = tuple(result[:1])
                case ("phases", strides, pads):
                    taps = [phase_taps(*a) for a in zip(result[2:], strides, pads, strict=True)]
                    extents = (last - first + 1 for first, last in taps)
                    result = (prod(strides) * result[1], result[0], *extents)
                case ("pad_parts", counts, multiple):
                    result = (sum(-(-c // multiple) * multiple for c in counts), *result[1:])
                case ("winograd", outputs):
                    result = (*result[:2], *(axis.size for axis in filterings(outputs, result[2:])))
                case ("astype", _) | ("bfloat16",):
                    pass
                case _:
                    raise ValueError(f"a constant's transform has the unknown step {step[0]!r}")
        return result

    def to_json(self) -> list[Any]:
        """Return plain data, the inverse of :meth:`from_json`."""
        return [
            [list(cast("tuple[int, ...]", x)) if isinstance(x, tuple) else x for x in step]
            for step in self.steps
        ]

    @staticmethod
    def from_json(data: Sequence[Any]) -> ParamTransform:
        """Read the data that :meth:`to_json` wrote."""
        return ParamTransform(
            tuple(
                tuple(tuple(cast("list[int]", x)) if isinstance(x, list) else x for x in step)
                for step in data
            )
        )


def packing(shape: Sequence[int], parts: Sequence[int], block: int) -> ParamTransform:
    """Return the packing of a convolution's ``(O, I, H, W)``, or a product's ``(I, O)``.

    The result has the shape ``(blocks, H, W, I, block)``; each part of the output channels (of the
    counts ``parts``) is padded to whole blocks.
    """
    steps: list[tuple[Any, ...]] = []
    if len(shape) == 2:
        steps += [("transpose", (1, 0)), ("reshape", (shape[1], shape[0], 1, 1))]
        shape = (shape[1], shape[0], 1, 1)
    blocks = sum(-(-part // block) for part in parts)
    _, channels, height, width = shape
    steps += [
        ("pad_parts", tuple(parts), block),
        ("reshape", (blocks, block, channels, height, width)),
        ("transpose", (0, 3, 4, 2, 1)),
    ]
    return ParamTransform(tuple(steps))


def packing_channels(
    shape: Sequence[int], parts: Sequence[int], block: int, count: int, filled: int
) -> ParamTransform:
    """Return a :func:`packing` in which ``count`` input channels lie next to each other.

    The result has the shape ``(blocks, H, W, packs, block, count)``. Input channels are padded with
    zeros to ``filled``, the channels of all packs.
    """
    steps: list[tuple[Any, ...]] = []
    shape = tuple(shape)
    if len(shape) == 2:
        shape = (shape[1], shape[0], 1, 1)
        steps += [("transpose", (1, 0)), ("reshape", shape)]
    if shape[1] < filled:
        swap = ("transpose", (1, 0, 2, 3))
        steps += [swap, ("pad_parts", (shape[1],), filled), swap]
        shape = (shape[0], filled, *shape[2:])
    pack = packing(shape, parts, block)
    blocks, rows, columns, channels, _ = pack.shape(shape)
    steps += [
        *pack.steps,
        ("reshape", (blocks, rows, columns, channels // count, count, block)),
        ("transpose", (0, 1, 2, 3, 5, 4)),
    ]
    return ParamTransform(tuple(steps))


def channel_sums(
    shape: Sequence[int], factor: int, parts: Sequence[int], block: int
) -> ParamTransform:
    """Return the transform from weights to the sums of each output channel, times ``factor``.

    The result has the shape ``(blocks * block,)`` and type int32; other parameters as for
    :func:`packing`.
    """
    steps: list[tuple[Any, ...]] = [("transpose", (1, 0))] if len(shape) == 2 else []
    steps += [("sums", factor), ("pad_parts", tuple(parts), block), ("astype", "int32")]
    return ParamTransform(tuple(steps))


def phase_taps(kernel: int, stride: int, pad: int) -> tuple[int, int]:
    """Return the first and last input, relative to q, that a transposed convolution reads for q.

    Along one axis, outputs ``q * stride`` to ``(q + 1) * stride - 1``, the phases of ``q``,
    together read the inputs from ``q + first`` to ``q + last``: an ordinary convolution with the
    phases' channels side by side, and zeros where a phase has no weight.
    """
    return -((kernel - 1 - pad) // stride), (stride - 1 + pad) // stride


def _phases(weight: Array, strides: Sequence[int], pads: Sequence[int]) -> Array:
    """Turn ``(I, O, H, W)`` into ``(phases * O, I, rows, columns)`` of the ordinary convolution."""
    channels, out, *kernel = weight.shape
    first, last = zip(*map(phase_taps, kernel, strides, pads), strict=True)
    extents = [b - a + 1 for a, b in zip(first, last, strict=True)]
    result = np.zeros((*strides, out, channels, *extents), weight.dtype)
    for *phase, y, x in product(*map(range, (*strides, *extents))):
        # Output q * stride + phase takes input q + tap by the kernel's element at this distance.
        taps = zip(phase, pads, strides, (first[0] + y, first[1] + x), strict=True)
        at = [r + pad - stride * tap for r, pad, stride, tap in taps]
        if all(0 <= a < size for a, size in zip(at, kernel, strict=True)):
            result[phase[0], phase[1], :, :, y, x] = weight[:, :, at[0], at[1]].T
    return result.reshape(-1, channels, *extents)


def _pad_parts(array: Array, counts: Sequence[int], multiple: int) -> Array:
    parts: list[Array] = []
    begin = 0
    for count in counts:
        padding = -count % multiple
        part = array[begin : begin + count]
        parts.append(np.pad(part, [(0, padding)] + [(0, 0)] * (array.ndim - 1)))
        begin += count
    return np.concatenate(parts)
