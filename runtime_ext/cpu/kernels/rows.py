"""Cut a row of output pixels into register tiles with known handling of borders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tvm import tirx

from runtime_ext.kernels.code import Code, Index
from runtime_ext.kernels.spec import Window
from tvm_ios.shapes.extent import may_be_positive


@dataclass(frozen=True, slots=True)
class TileRun:
    """Consecutive tiles that need the same code.

    ``begin`` is the column of the first tile's first pixel, ``valid`` the pairs (pixel of the
    tile, kernel column) that read inside the input.
    """

    begin: int
    tiles: int
    pixels: int
    valid: frozenset[tuple[int, int]]


@lru_cache(1024)
def row_runs(window: Window, pixels: int) -> tuple[TileRun, ...]:
    """Cut an output row into tiles of ``pixels``, from left to right; the last may be shorter.

    Neighbours of one size that read the same kernel columns inside the image are joined.
    """
    runs: list[TileRun] = []
    width = window.output[1]
    for begin in range(0, width, pixels):
        size = min(pixels, width - begin)
        valid = frozenset(
            (p, k)
            for p in range(size)
            for k in range(window.kernel[1])
            if 0 <= column(window, begin + p, k) < window.input[1]
        )
        last = runs[-1] if runs else None
        if last is not None and (last.pixels, last.valid) == (size, valid):
            runs[-1] = TileRun(last.begin, last.tiles + 1, size, valid)
        else:
            runs.append(TileRun(begin, 1, size, valid))
    return tuple(runs)


def column(window: Window, x: Index, k: int) -> Index:
    """Return the input column that output column ``x`` reads for kernel column ``k``."""
    return x * window.strides[1] + (k * window.dilations[1] - window.pads[1])


def kernel_rows(code: Code, window: Window, y: Index) -> tuple[Index, Index]:
    """Return the range of kernel rows that read inside the input for output row ``y``."""
    begin, end = _kernel_range(code, window, 0, y)
    return code.bind("ky_begin", begin), code.bind("ky_end", end)


def kernel_columns(code: Code, window: Window, x: Index) -> tuple[Index, Index]:
    """Return the range of kernel columns that read inside the input for output column ``x``."""
    begin, end = _kernel_range(code, window, 1, x)
    return code.bind("kx_begin", begin), code.bind("kx_end", end)


def _kernel_range(code: Code, window: Window, axis: int, at: Index) -> tuple[Index, Index]:
    taps, stride, dilation = window.kernel[axis], window.strides[axis], window.dilations[axis]
    pad, last = window.pads[axis], (window.output[axis] - 1) * stride
    begin: Index = 0
    end: Index = taps
    if pad > 0:
        begin = tirx.max(0, tirx.floordiv(pad - at * stride + (dilation - 1), dilation))
    if may_be_positive(last + (taps - 1) * dilation - pad + 1 - window.input[axis]):
        reach = code.extent(window.input[axis]) + pad - at * stride + (dilation - 1)
        end = tirx.min(taps, tirx.floordiv(reach, dilation))
    return begin, end
