"""How a contraction is cut into blocks of threads: which tiles there are, and which one is best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from math import ceil

from runtime_ext.kernels.cut import GemmTile
from runtime_ext.kernels.spec import Contraction, Window

#: Rows and columns of a block, and of one of its threads; 128 threads, or 256 for the largest.
_THREAD_TILES = {
    (128, 128): (8, 8),
    (128, 64): (8, 8),
    (128, 32): (8, 4),
    (128, 16): (4, 4),
    (64, 64): (8, 4),
    (64, 32): (4, 4),
    (64, 16): (4, 2),
    (32, 64): (4, 4),
    (32, 32): (4, 2),
    (16, 64): (2, 4),
    (16, 32): (2, 2),
}
#: Up to so many rows are products of vectors, whose columns a block has so many of.
_VECTOR_ROWS, _VECTOR_COLUMNS = 4, 32
#: Steps of the reduction that a block holds in shared memory at once (twice).
_DEPTH = 16
_SPLITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)

#: Speed of tensor cores over ordinary arithmetic, as far as shared memory feeds them.
_SPEED = {"float32": 1.0, "tf32": 3.0, "float16": 4.0}

# The estimate, in cycles of a processor of 128 multiply-adds a cycle. All assumed.
#: From asking for a slab to having it in shared memory.
_LATENCY = 600.0
#: Until a block's first slab is there, and from its last to its results.
_BLOCK = 1500.0
#: Another launch, for the sum of a split reduction; and bytes a cycle of the cache between.
_LAUNCH, _CACHE_BYTES = 4000.0, 2000.0
#: What fetching fragments from shared memory costs, in multiply-adds an element.
_FETCH = 2.0
#: Registers of a thread beside its tile and fragments; registers of a processor.
_OTHER_REGISTERS, _REGISTERS = 40, 65536
#: Fewer and more blocks than this, to those of the best tile, count as coarser and finer; and
#: what takes longer than this, to its estimate, is not tried.
_AT_MOST, _AT_LEAST, _MOST_TIME = 2 / 3, 3 / 2, 2.0


def tile_of(rows: int, columns: int, depth: int, splits: int) -> GemmTile:
    """The tile of a block of these extents, with those of its threads."""
    thread_rows, thread_columns = _THREAD_TILES.get((rows, columns), (rows, 1))
    return GemmTile(rows, columns, depth, thread_rows, thread_columns, splits)


def best_tile(spec: Contraction, processors: int, precision: str) -> GemmTile:
    """The tile of the least estimated time."""
    return min(estimates(spec, processors, precision), key=_time)[-1]


def estimates(
    spec: Contraction, processors: int, precision: str
) -> Iterator[tuple[float, GemmTile]]:
    """The cycles of every tile that makes sense, and the tile."""
    rows, slabs = rows_of(spec), ceil(depth_of(spec) / _DEPTH)
    vectors = is_vector_product(spec)
    splits = {ceil(slabs / ceil(slabs / s)) for s in _SPLITS}
    shapes = [(rows, _VECTOR_COLUMNS)] if vectors else _THREAD_TILES
    for tile in _tiles(shapes, sorted(splits)):
        yield _cycles(spec, tile, processors, precision, vectors), tile


def best_product_tile(spec: Contraction, processors: int, precision: str) -> GemmTile:
    """The best tile in shared memory, whatever the rows, whose reduction is not split."""
    candidates = ((_cycles(spec, b, processors, precision), b) for b in _tiles(_THREAD_TILES, (1,)))
    return min(candidates, key=lambda pair: pair[0])[1]


def coarse_tile(spec: Contraction, processors: int, precision: str) -> GemmTile | None:
    """The best tile of clearly fewer blocks than the contraction's own."""
    most = _AT_MOST * _blocks(spec, spec.blocking)
    return _another(spec, processors, precision, lambda blocks: blocks <= most)


def fine_tile(spec: Contraction, processors: int, precision: str) -> GemmTile | None:
    """The best tile of clearly more blocks than the contraction's own."""
    least = _AT_LEAST * _blocks(spec, spec.blocking)
    return _another(spec, processors, precision, lambda blocks: blocks >= least)


def rows_of(spec: Contraction) -> int:
    """Rows of the product: pixels of all images."""
    return spec.batch * spec.window.output[0] * spec.window.output[1]


def depth_of(spec: Contraction) -> int:
    """Length of its reduction."""
    return spec.channels * spec.window.kernel[0] * spec.window.kernel[1]


def is_vector_product(spec: Contraction) -> bool:
    """Whether so few results share a weight that reading the weights is all the work."""
    window = spec.window
    return rows_of(spec) <= _VECTOR_ROWS and window.kernel == (1, 1) and not has_borders(window)


def has_borders(window: Window) -> bool:
    """Whether a window reads beyond its input anywhere."""
    last = (
        (o - 1) * s + (k - 1) * d - p
        for o, s, k, d, p in zip(
            window.output, window.strides, window.kernel, window.dilations, window.pads, strict=True
        )
    )
    beyond = any(at >= extent for at, extent in zip(last, window.input, strict=True))
    return beyond or any(pad > 0 for pad in window.pads)


def tile_count(spec: Contraction, tile: GemmTile) -> int:
    """How many tiles the results are cut into."""
    columns = sum(ceil(part / tile.columns) for part in spec.parts)
    return ceil(rows_of(spec) / tile.rows) * columns


def _blocks(spec: Contraction, tile: GemmTile) -> int:
    return tile_count(spec, tile) * tile.splits


def _another(
    spec: Contraction, processors: int, precision: str, fits: Callable[[int], bool]
) -> GemmTile | None:
    ranked = sorted(estimates(spec, processors, precision), key=_time)
    limit = _MOST_TIME * ranked[0][0]
    return next((b for t, b in ranked if t <= limit and fits(_blocks(spec, b))), None)


def _time(estimate: tuple[float, GemmTile]) -> tuple[float, int]:
    """The order of estimates: of equal cycles the less split tile is better."""
    cycles, tile = estimate
    return cycles, tile.splits


def _tiles(shapes: Iterable[tuple[int, int]], splits: Iterable[int]) -> Iterator[GemmTile]:
    for (height, width), split in product(shapes, splits):
        yield tile_of(height, width, _DEPTH, split)


def _cycles(
    spec: Contraction, tile: GemmTile, processors: int, precision: str, vectors: bool = False
) -> float:
    slabs = ceil(depth_of(spec) / tile.depth / tile.splits)
    waiting = _LATENCY
    if vectors:
        # Every thread has several loads under way; a slab is some sixteen rows of weights.
        work, together, waiting = 16.0, 8, 40.0
    else:
        tm, tn = tile.thread_rows, tile.thread_columns
        efficiency = tm * tn / (tm * tn + _FETCH * (tm + tn))
        work = tile.rows * tile.columns * tile.depth / (128 * efficiency * _SPEED[precision])
        registers = tm * tn + 2 * (tm + tn) + _OTHER_REGISTERS
        together = max(1, min(8, _REGISTERS // (registers * tile.threads)))
    on_one = ceil(_blocks(spec, tile) / processors)
    rounds, last_round = divmod(on_one, together)
    cycles = rounds * (_BLOCK + slabs * max(waiting, together * work))
    if last_round:
        cycles += _BLOCK + slabs * max(waiting, last_round * work)
    if tile.splits > 1:
        moved = 2.0 * 4 * tile.splits * rows_of(spec) * sum(spec.parts)
        cycles += _LAUNCH + moved / _CACHE_BYTES
    return round(cycles, 1)
