"""The tiles into which the CUDA kernels of a matrix product cut it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil

from tvm_ios.costs.cuda_kernels.matrix_product import MatrixProduct
from tvm_ios.devices.device import WARP

#: Threads of a block of most kernels: the same number, so that kernels can share a persistent one.
THREADS = 128
#: Elements of 16 bytes of float32, the widest access of a thread.
WIDE = 4
#: Floats between the lines of a slab beyond its own, so that threads of a warp that read
#: fragments of tensor cores, or write columns, meet few others in a bank.
PADDING = 8
#: Rows and columns of a tensor core's instruction; the depth of each precision's.
MMA_ROWS, MMA_COLUMNS = 16, 8
MMA_DEPTH = {"tf32": 8, "float16": 16}

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


@dataclass(frozen=True, slots=True)
class GemmTile:
    """The cut of a contraction's work on a GPU: blocks of rows (pixels) by columns (channels)."""

    #: Rows and columns of a block, and steps of the reduction that it holds in shared memory.
    rows: int
    columns: int
    depth: int
    #: Rows and columns of one of its threads. Where these take fewer than :data:`THREADS` threads,
    #: as many teams of threads as fit share the depth of each slab, and add up.
    thread_rows: int
    thread_columns: int
    #: Blocks that share the reduction of one tile.
    splits: int

    @property
    def team(self) -> int:
        """Threads that hold all results of the tile, each its own."""
        return self.rows // self.thread_rows * (self.columns // self.thread_columns)

    @property
    def teams(self) -> int:
        """Teams of a block; each multiplies its range of every slab's depth."""
        return max(1, THREADS // self.team)

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.team * self.teams


def tile_of(rows: int, columns: int, depth: int, splits: int, teams: int = 1) -> GemmTile:
    """Return the tile of a block with these extents, with the tile of each thread filled in."""
    thread = _THREAD_TILES.get((rows, columns, teams), (rows, WIDE))
    return GemmTile(rows, columns, depth, *thread, splits)


def tiles_of(product: MatrixProduct, precision: str) -> Iterator[GemmTile]:
    """Yield every sensible tile of a product, with every sensible number of splits."""
    tiles = _vector_tiles(product) if product.vectors else whole_tiles(product, precision)
    for tile in tiles:
        slabs = ceil(product.depth / tile.depth)
        for splits in sorted({ceil(slabs / ceil(slabs / s)) for s in _SPLITS}):
            yield replace(tile, splits=splits)


def whole_tiles(product: MatrixProduct, precision: str) -> Iterator[GemmTile]:
    """Yield the tiles that use shared memory and do not split the reduction among blocks."""
    deepest = max(_DEPTH, product.depth)
    for rows, columns, teams in _THREAD_TILES:
        for depth in _TEAM_DEPTHS if teams > 1 else (_DEPTH,):
            tile = tile_of(rows, columns, depth, 1, teams)
            fits = depth <= deepest and slab_bytes(tile) <= _SHARED_BYTES
            if fits and (precision == "float32" or can_multiply(tile, precision)):
                yield tile


def _vector_tiles(product: MatrixProduct) -> Iterator[GemmTile]:
    """Yield the tiles of a vector product, in which every team reads another row of weights."""
    for columns in _VECTOR_COLUMNS:
        yield tile_of(product.rows, columns, THREADS * WIDE // columns, 1)


def slab_bytes(tile: GemmTile) -> int:
    """Return the bytes of shared memory that a block needs."""
    slabs = 2 * tile.depth * (tile.rows + tile.columns + 2 * PADDING)
    sums = tile.teams * tile.rows * tile.columns if tile.teams > 1 else 0
    return 4 * max(slabs, sums)


def warp_layout(tile: GemmTile) -> tuple[int, int] | None:
    """Return the rows and columns of warps of a team; None if there are too many warps.

    The most square tiles of warps are chosen, because they read the least of the slabs.
    """
    warps = tile.team // WARP
    layouts = [(down, warps // down) for down in (1, 2, 4, 8) if warps % down == 0]
    fitting = [
        (tile.rows // down + tile.columns // across, abs(down - across), down, across)
        for down, across in layouts
        if tile.rows % (down * MMA_ROWS) == 0 and tile.columns % (across * MMA_COLUMNS) == 0
    ]
    return min(fitting)[2:] if fitting else None


def can_multiply(tile: GemmTile, precision: str) -> bool:
    """Return whether the tile splits into whole instructions for the warps of every team."""
    own_depth = tile.teams * MMA_DEPTH[precision]
    return warp_layout(tile) is not None and tile.depth % own_depth == 0


def warp_instructions(tile: GemmTile, precision: str) -> tuple[int, int, int]:
    """Return the work of a warp per slab: loads and multiplications, and results per thread.

    Loads are the elements that each thread loads; the last number is the elements of results that
    a thread holds.
    """
    layout, depth = warp_layout(tile), MMA_DEPTH[precision]
    assert layout is not None, "no tile of warps"
    down, across = tile.rows // layout[0] // MMA_ROWS, tile.columns // layout[1] // MMA_COLUMNS
    steps = tile.depth // depth // tile.teams
    loads = (down * MMA_ROWS + across * MMA_COLUMNS) * depth // WARP
    return steps * loads, steps * down * across, down * across * 4
