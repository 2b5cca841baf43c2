"""The tiles into which a contraction can be cut, and the choice of the best one.

The best tile has the least estimated time on the GPU that kernels are compiled for. So small
results are cut into small tiles that occupy many multiprocessors. If there are too few results
for all, the reduction is shared: by teams of threads of a block, which costs little, or by blocks,
which costs another launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from math import ceil

from runtime_ext.cuda.kernels.contraction_shape import (
    block_count,
    depth_of,
    is_vector_product,
    rows_of,
)
from runtime_ext.cuda.kernels.gemm import slab_bytes
from runtime_ext.cuda.kernels.gemm_estimate import contraction_cycles
from runtime_ext.cuda.kernels.statements import WIDE
from runtime_ext.cuda.kernels.tensor_cores import can_multiply
from runtime_ext.cuda.machine_code.target_gpu import TargetGpu
from runtime_ext.kernels.cut import THREADS, UNCUT, GemmTile
from runtime_ext.kernels.spec import Contraction

#: Rows and columns of a block, how many teams it has, and rows and columns of a thread: 128
#: threads in all, or 256 for the largest.
_THREAD_TILES = {
    (128, 128, 1): (8, 8),
    (128, 64, 1): (8, 8),
    (128, 32, 1): (8, 4),
    (128, 16, 1): (4, 4),
    (64, 64, 1): (8, 4),
    (64, 64, 2): (8, 8),
    (64, 32, 1): (4, 4),
    (64, 32, 2): (8, 4),
    (64, 32, 4): (8, 8),
    (64, 16, 1): (4, 2),
    (64, 16, 2): (4, 4),
    (64, 16, 4): (8, 4),
    (32, 64, 1): (4, 4),
    (32, 64, 2): (4, 8),
    (32, 64, 4): (8, 8),
    (32, 32, 1): (4, 2),
    (32, 32, 2): (4, 4),
    (32, 32, 4): (8, 4),
    (32, 16, 1): (2, 2),
    (32, 16, 2): (4, 2),
    (32, 16, 4): (4, 4),
    (32, 8, 4): (4, 2),
    (16, 64, 1): (2, 4),
    (16, 64, 2): (4, 4),
    (16, 64, 4): (4, 8),
    (16, 32, 1): (2, 2),
    (16, 32, 2): (2, 4),
    (16, 32, 4): (4, 4),
    (16, 16, 1): (2, 1),
    (16, 16, 2): (2, 2),
    (16, 16, 4): (4, 2),
    (16, 8, 4): (2, 2),
    (8, 64, 4): (4, 4),
    (8, 32, 4): (2, 4),
    (8, 16, 4): (2, 2),
}
#: Columns of a block of a product of vectors.
_VECTOR_COLUMNS = (32, 16, 8)
#: Steps of the reduction that a block holds in shared memory at once (twice); teams may have more.
_DEPTH, _TEAM_DEPTHS = 16, (16, 32, 64)
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
#: The most shared memory of a block: the most demanding kernel of a persistent one decides how many
#: vEUs a multiprocessor is. Without asking a block has 48 KiB; the estimate gains little by them.
_SHARED_BYTES = 36 * 1024
#: Fewer and more blocks than this, to those of the best tile, count as coarser and finer; and
#: what takes longer than this, to its estimate, is not tried.
_AT_MOST, _AT_LEAST, _MOST_TIME = 2 / 3, 3 / 2, 2.0

#: The cycles of a tile, and the tile.
Estimate = tuple[float, GemmTile]


def tile_of(rows: int, columns: int, depth: int, splits: int, teams: int = 1) -> GemmTile:
    """Return the tile of a block with these extents, with the tile of each thread filled in."""
    thread = _THREAD_TILES.get((rows, columns, teams), (rows, WIDE))
    return GemmTile(rows, columns, depth, *thread, splits)


def best_tile(spec: Contraction, gpu: TargetGpu, precision: str) -> GemmTile:
    """Return the tile of the least estimated time."""
    return estimates(spec, gpu, precision)[0][1]


def estimates(spec: Contraction, gpu: TargetGpu, precision: str) -> tuple[Estimate, ...]:
    """Return estimated cycles and tile of every sensible tile, the fastest first.

    Of tiles with equal cycles the one with fewer splits is first.
    """
    # However it is cut, and its weights packed, now.
    return _estimates(replace(spec, blocking=UNCUT, buffers=()), gpu, precision)


@lru_cache(maxsize=128)
def _estimates(spec: Contraction, gpu: TargetGpu, precision: str) -> tuple[Estimate, ...]:
    tiles = _vector_tiles(spec) if is_vector_product(spec) else _product_tiles(spec, precision)
    cuts = [cut for tile in tiles for cut in _split(spec, tile)]
    found = [(contraction_cycles(spec, cut, gpu, precision), cut) for cut in cuts]
    return tuple(sorted(found, key=lambda estimate: (estimate[0], estimate[1].splits)))


def best_product_tile(spec: Contraction, gpu: TargetGpu, precision: str) -> GemmTile:
    """Return the best tile that uses shared memory and does not split the reduction among blocks.

    Few rows do not make it a vector product.
    """
    tiles = _product_tiles(spec, precision)
    return min(tiles, key=lambda tile: contraction_cycles(spec, tile, gpu, precision))


def coarse_tile(spec: Contraction, gpu: TargetGpu, precision: str) -> GemmTile | None:
    """Return the best tile of clearly fewer blocks than the contraction's own, or None."""
    most = _AT_MOST * block_count(spec, _own(spec))
    return _another(spec, gpu, precision, lambda blocks: blocks <= most)


def fine_tile(spec: Contraction, gpu: TargetGpu, precision: str) -> GemmTile | None:
    """Return the best tile of clearly more blocks than the contraction's own, or None."""
    least = _AT_LEAST * block_count(spec, _own(spec))
    return _another(spec, gpu, precision, lambda blocks: blocks >= least)


def _own(spec: Contraction) -> GemmTile:
    assert isinstance(spec.blocking, GemmTile)
    return spec.blocking


def _another(
    spec: Contraction, gpu: TargetGpu, precision: str, fits: Callable[[int], bool]
) -> GemmTile | None:
    ranked = estimates(spec, gpu, precision)
    limit = _MOST_TIME * ranked[0][0]
    return next((b for t, b in ranked if t <= limit and fits(block_count(spec, b))), None)


def _vector_tiles(spec: Contraction) -> Iterator[GemmTile]:
    """Yield the tiles of a vector product, in which every team reads another row of weights."""
    for columns in _VECTOR_COLUMNS:
        yield tile_of(rows_of(spec), columns, THREADS * WIDE // columns, 1)


def _product_tiles(spec: Contraction, precision: str) -> Iterator[GemmTile]:
    deepest = max(_DEPTH, depth_of(spec))
    for rows, columns, teams in _THREAD_TILES:
        for depth in _TEAM_DEPTHS if teams > 1 else (_DEPTH,):
            tile = tile_of(rows, columns, depth, 1, teams)
            fits = depth <= deepest and slab_bytes(tile) <= _SHARED_BYTES
            if fits and (precision == "float32" or can_multiply(tile, precision)):
                yield tile


def _split(spec: Contraction, tile: GemmTile) -> Iterator[GemmTile]:
    slabs = ceil(depth_of(spec) / tile.depth)
    for splits in sorted({ceil(slabs / ceil(slabs / s)) for s in _SPLITS}):
        yield replace(tile, splits=splits)
