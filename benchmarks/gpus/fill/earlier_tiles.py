"""The rule of thumb by which contractions were cut before: what a comparison begins with.

Its estimate knows neither how many blocks a multiprocessor holds nor that a warp waits for itself,
so tiles of small results take equally long, and the largest is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import ceil

from runtime_ext.cuda.gemm_space import GemmSpace
from runtime_ext.cuda.kernels.contraction_shape import (
    depth_of,
    is_vector_product,
    rows_of,
)
from runtime_ext.cuda.kernels.gemm_tile import block_count
from runtime_ext.kernels.spec import Contraction
from tvm_ios.costs.cuda_kernels.tile import WIDE, GemmTile, tile_of
from tvm_ios.costs.cuda_kernels.window_estimate import SlidingWindow, WindowCut, window_blocks

#: In the order in which tiles of equal estimates were preferred.
_SHAPES = (
    (128, 128), (128, 64), (128, 32), (128, 16), (64, 64), (64, 32), (64, 16), (32, 64), (32, 32),
    (16, 64), (16, 32),
)  # fmt: skip
_VECTOR_COLUMNS, _DEPTH = 32, 16
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
_SPEED = {"float32": 1.0, "tf32": 3.0, "float16": 4.0}
# In cycles of a processor of 128 multiply-adds a cycle: waiting for a slab, beginning and ending a
# block, launching a sum; bytes a cycle of the cache; what fetching fragments costs.
_LATENCY, _BLOCK, _LAUNCH, _CACHE_BYTES, _FETCH = 600.0, 1500.0, 4000.0, 2000.0, 2.0
_OTHER_REGISTERS, _REGISTERS = 40, 65536


#: Neighbouring pixels of a row that a thread of a window had.
_PIXELS = (4, 2, 1)


def earlier_cut(window: SlidingWindow, processors: int) -> WindowCut:
    """The widest cut with a block for every multiprocessor; a tap was read when it was needed."""
    widest = WIDE if window.wide else 1
    cuts = [WindowCut(widest, p, 1, 1) for p in _PIXELS] + [WindowCut(1, 1, 1, 1)]
    return next((c for c in cuts if window_blocks(window, c) >= processors), cuts[-1])


class EarlierSpace(GemmSpace):
    """Cuts contractions as before."""

    def blocking(self, spec: Contraction) -> GemmTile:
        """The tile of the least estimated time; of equal ones the less split, then the largest."""
        cycles = [
            (_cycles(spec, tile, self.gpu.processors, self.precision), tile.splits, number, tile)
            for number, tile in enumerate(_tiles(spec))
        ]
        return min(cycles)[-1]


def _tiles(spec: Contraction) -> Iterator[GemmTile]:
    rows, slabs = rows_of(spec), ceil(depth_of(spec) / _DEPTH)
    splits = {ceil(slabs / ceil(slabs / s)) for s in _SPLITS}
    shapes = [(rows, _VECTOR_COLUMNS)] if is_vector_product(spec) else _SHAPES
    for (height, width), split in product(shapes, sorted(splits)):
        yield tile_of(height, width, _DEPTH, split)


def _cycles(spec: Contraction, tile: GemmTile, processors: int, precision: str) -> float:
    slabs = ceil(depth_of(spec) / tile.depth / tile.splits)
    waiting = _LATENCY
    if is_vector_product(spec):
        work, together, waiting = 16.0, 8, 40.0
    else:
        tm, tn = tile.thread_rows, tile.thread_columns
        efficiency = tm * tn / (tm * tn + _FETCH * (tm + tn))
        work = tile.rows * tile.columns * tile.depth / (128 * efficiency * _SPEED[precision])
        registers = tm * tn + 2 * (tm + tn) + _OTHER_REGISTERS
        together = max(1, min(8, _REGISTERS // (registers * tile.threads)))
    on_one = ceil(block_count(spec, tile) / processors)
    rounds, last_round = divmod(on_one, together)
    cycles = rounds * (_BLOCK + slabs * max(waiting, together * work))
    if last_round:
        cycles += _BLOCK + slabs * max(waiting, last_round * work)
    if tile.splits > 1:
        moved = 2.0 * 4 * tile.splits * rows_of(spec) * sum(spec.parts)
        cycles += _LAUNCH + moved / _CACHE_BYTES
    return round(cycles, 1)
