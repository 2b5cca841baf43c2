"""``RoiAlign`` as ONNX defines it, as TIR: TVM's lacks the mode ``max`` and adaptive ratios."""

from __future__ import annotations

import math
import operator
from functools import reduce
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from runtime_ext.kernels.cut import largest_divisor

#: Channels that are read side by side, at most.
_CHANNELS = 16


def roi_align(
    image: Any,
    regions: Any,
    batch: Any,
    *,
    size: tuple[int, int],
    ratio: int,
    scale: float,
    half_pixel: bool,
    largest: bool,
) -> Any:
    """Return a PrimFunc in block form that samples regions of images.

    ``image``, ``regions`` and ``batch`` are the types of the inputs, with static shapes; ``size``
    is the height and width of the results. ``ratio`` and ``scale`` are the attributes
    ``sampling_ratio`` and ``spatial_scale``; ``largest`` means the mode ``max``. The result for a
    region that is not finite is NaN; indices into the batch wrap around.
    """
    images, channels, *pixels = (int(extent) for extent in image.shape)
    count, dtype = int(regions.shape[0]), str(image.dtype)
    wide = "float64" if dtype == "float64" else "float32"
    zero, one, shift = (tirx.const(n, wide) for n in (0.0, 1.0, 0.5 if half_pixel else 0.0))
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("roi_align")
        source = T.arg("image", T.buffer((images, channels, *pixels), dtype))
        boxes = T.arg("regions", T.buffer((count, 4), str(regions.dtype)))
        numbers = T.arg("batch", T.buffer((count,), str(batch.dtype)))
        result = T.arg("result", T.buffer((count, channels, *size), dtype))
        # Several channels share the computed places and weights.
        group = largest_divisor(channels, _CHANNELS)
        with T.grid(count, channels // group, *size) as loops, T.sblock("roi_align"):
            box, part, *cell = T.axis.remap("SSSS", list(loops))
            begin = part * group
            planes = source[0:images, begin : begin + group, 0 : pixels[0], 0 : pixels[1]]
            T.reads(planes, boxes[box, 0:4], numbers[box])
            T.writes(result[box, begin : begin + group, cell[0], cell[1]])
            total = T.sblock_alloc_buffer((group,), wide, scope="local")
            which = _kept(tirx.floormod(numbers[box], images))

            def axis(number: int) -> _Axis:
                low, high = (
                    tirx.Cast(wide, boxes[box, end - number]) * tirx.const(scale, wide) - shift
                    for end in (1, 3)
                )
                low = _kept(low)
                span = high - low if half_pixel else tirx.max(high - low, one)
                return _Axis(low, _kept(span), cell[number], size[number], pixels[number], ratio)

            rows, columns = axis(0), axis(1)
            samples = _kept(rows.samples * columns.samples)
            # Samples that are not visited count as zeros, also if none is visited.
            all_visited = samples <= rows.visited * columns.visited
            first = tirx.Select(all_visited, -tirx.infinity(wide), zero) if largest else zero
            with T.serial(group) as channel:
                T.buffer_store(total, tirx.Select(samples > zero, first, zero), [channel])
            with T.serial(tirx.Cast("int32", rows.visited)) as i:
                lines, in_rows = rows.neighbours(i)
                with T.serial(tirx.Cast("int32", columns.visited)) as j:
                    places, in_columns = columns.neighbours(j)
                    weighted = [
                        (y, x, _kept(down * along)) for y, down in lines for x, along in places
                    ]
                    with T.serial(group) as channel:
                        parts = [
                            weight * tirx.Cast(wide, source[which, begin + channel, y, x])
                            for y, x, weight in weighted
                        ]
                        sample = reduce(_larger, parts) if largest else sum(parts[1:], parts[0])
                        sample = tirx.Select(in_rows, tirx.Select(in_columns, sample, zero), zero)
                        new = (_larger if largest else operator.add)(total[channel], sample)
                        T.buffer_store(total, new, [channel])
            with T.serial(group) as channel:
                value = total[channel]
                value = value if largest else value / tirx.max(samples, one)
                for side in (rows, columns):
                    value = tirx.Select(side.is_finite, value, tirx.const(math.nan, wide))
                T.buffer_store(result, tirx.Cast(dtype, value), [box, begin + channel, *cell])
    return builder.get()


class _Axis:
    """The samples of one cell of a region along an axis of an image.

    ``samples`` counts all of them, and ``visited`` those that lie within the image, so that no
    region takes longer than one that covers it. ``is_finite`` says whether the region is finite.
    """

    def __init__(self, low: Any, span: Any, cell: Any, cells: int, extent: int, ratio: int) -> None:
        self.wide = str(low.ty.dtype)
        self.extent = extent
        self.is_finite = tirx.abs(low) + tirx.abs(span) <= tirx.max_value(self.wide)
        self.length = _kept(span / self._number(cells))
        self.begin = _kept(low + tirx.Cast(self.wide, cell) * self.length)
        if ratio > 0:
            self.samples = self.visited = self._number(ratio)
            self.first = self._number(0)
            return
        self.samples = _kept(tirx.Select(self.is_finite, tirx.ceil(self.length), self._number(0)))
        step = _kept(self.length / self.samples)
        first, end = (
            self._up_to((self._number(edge) - self.begin) / step + self._number(more), self.samples)
            for edge, more in ((-1, -2), (extent, 2))
        )
        self.first = _kept(tirx.floor(first))
        # A step is longer than half a pixel if there are several.
        self.visited = _kept(self._up_to(tirx.ceil(end) - self.first, self._number(2 * extent + 8)))

    def neighbours(self, number: Any) -> tuple[list[tuple[Any, Any]], Any]:
        """Return the two pixels beside a sample, each with its weight, and whether it counts."""
        half = self._number(0.5)
        place = self.first + tirx.Cast(self.wide, number) + half
        at = _kept(self.begin + place * self.length / self.samples)
        inside = tirx.Select(at >= self._number(-1), at <= self._number(self.extent), False)
        last = self.extent - 1
        clipped = _kept(self._up_to(at, self._number(last)))
        low = _kept(tirx.Cast("int32", clipped))
        weight = _kept(clipped - tirx.Cast(self.wide, low))
        return [(low, self._number(1) - weight), (tirx.min(low + 1, last), weight)], inside

    def _number(self, value: float) -> Any:
        return tirx.const(float(value), self.wide)

    def _up_to(self, value: Any, most: Any) -> Any:
        """Return a value clamped to the range from 0 to ``most``; NaN becomes 0."""
        positive = tirx.Select(value > self._number(0), value, self._number(0))
        return tirx.Select(positive < most, positive, most)


def _kept(value: Any) -> Any:
    """Store a value in a local buffer and return its load.

    TVM substitutes a bound variable's expression wherever it is used, which would repeat the work.
    """
    place = T.sblock_alloc_buffer((1,), str(value.ty.dtype), scope="local")
    T.buffer_store(place, value, [0])
    return place[0]


def _larger(a: Any, b: Any) -> Any:
    return tirx.Select(a < b, b, a)
