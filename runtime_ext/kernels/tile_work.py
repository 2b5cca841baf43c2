"""Sizes of tiles of kernels that reduce little or nothing, and of their finer tiles.

The sizes are a CPU's. Finer forms exist for the same kernels on GPUs, which choose their own
blocks.
"""

from __future__ import annotations

from dataclasses import replace

from runtime_ext.kernels.expression import Access, loads, windows
from runtime_ext.kernels.open_shapes import is_same
from runtime_ext.kernels.spec import Finer, Pointwise, Pooling, Spec
from tvm_ios.program.program import LINE
from tvm_ios.shapes.extent import hint_of, is_open

#: Elements of a tile: long against a call, short enough to balance lanes; and of a finer tile, to
#: balance many lanes.
_ELEMENTS, _FINER = 4096, 1024
#: Pixels of a tile that is transposed, at least: some cache lines, next to each other; of a finer
#: tile one.
_ACROSS = 64
#: Bytes of input rows that stay in the first-level cache from one row of results to the next.
_RESIDENT = 32 * 1024


def finer(spec: Spec) -> Spec:
    """Return a pool or pointwise kernel in smaller tiles, if it has any; else unchanged."""
    if isinstance(spec, Pooling):
        smaller = channels_a_tile(spec, finer=True) < channels_a_tile(spec, finer=False)
    elif isinstance(spec, Pointwise):
        smaller = work_a_tile(spec, finer=True) < work_a_tile(spec, finer=False)
    else:
        return spec
    return Finer(spec) if smaller else spec


def channels_a_tile(spec: Pooling, finer: bool) -> int:
    """Return the channels of a tile: those that stay in the cache, or a third, in whole lines."""
    row_bytes = hint_of(spec.window.input[1]) * LINE * 4
    lines = max(1, _RESIDENT // (row_bytes * (spec.window.kernel[0] + 1)))
    lines = min(lines, -(-spec.channels // LINE))
    return min(spec.channels, (-(-lines // 3) if finer else lines) * LINE)


def work_a_tile(spec: Pointwise, finer: bool) -> int:
    """Return the work of a tile: pixels of a row, or elements of a long run."""
    elements = _FINER if finer else _ELEMENTS
    if is_long_run(spec):
        count = spec.statements[0].count
        return elements if is_open(count) else min(elements, count)
    pixels = max(1, elements // hint_of(sum(s.count for s in spec.statements)))
    turned = across(spec)
    if turned is not None:
        spec, pixels = turned, max(LINE if finer else _ACROSS, pixels // LINE * LINE)
    return pixels if is_open(spec.grid[2]) else min(spec.grid[2], pixels)


def is_long_run(spec: Pointwise) -> bool:
    """Return whether one statement covers a single run of elements."""
    is_one = not any(map(is_open, spec.grid)) and spec.grid == (1, 1, 1)
    return is_one and len(spec.statements) == 1


def across(spec: Pointwise) -> Pointwise | None:
    """Return a spec that reads what lies along pixels, and stores along channels; None for others.

    It has one statement, perhaps with its rows and the pixels of a row exchanged. Pixels and
    channels are at least a vector, as long as their number is known.
    """
    for turned in (spec, _exchanged(spec)):
        statement, extents = turned.statements[0], (turned.grid[2], turned.statements[0].count)
        strides = [access.strides for access in loads(statement.value)]
        if (
            len(turned.statements) == 1
            and all(is_open(extent) or extent >= LINE for extent in extents)
            and not any(windows(statement.value))
            and is_same(statement.target.strides[3], 1)
            and all(is_same(pixel, 0) or is_same(pixel, 1) for _, _, pixel, _ in strides)
            and any(is_same(pixel, 1) and not is_same(to, 0) for _, _, pixel, to in strides)
        ):
            return turned
    return None


def _exchanged(spec: Pointwise) -> Pointwise:
    """Return a spec whose rows are the pixels of a row, and the reverse."""

    def exchanged(access: Access) -> Access:
        image, row, pixel, channel = access.strides
        return replace(access, strides=(image, pixel, row, channel))

    image, row, pixel = spec.grid
    statements = tuple(statement.mapped(exchanged) for statement in spec.statements)
    return replace(spec, grid=(image, pixel, row), statements=statements)
