"""An estimate of how long a matrix product takes with a given tile: waves of blocks, and work.

The best tile has the least estimated time. So small results are cut into small tiles that occupy
many multiprocessors. If there are too few results for all, the reduction is shared: by teams of
threads of a block, which costs little, or by blocks, which costs another launch.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, prod

from tvm_ios.costs.cuda_kernels.block_work import CACHE_BYTES, IN_FLIGHT, BlockWork, grid_cycles
from tvm_ios.costs.cuda_kernels.matrix_product import MatrixProduct
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu
from tvm_ios.costs.cuda_kernels.tile import (
    MMA_DEPTH,
    THREADS,
    WIDE,
    GemmTile,
    slab_bytes,
    tiles_of,
    warp_instructions,
)
from tvm_ios.devices.device import WARP
from tvm_ios.devices.occupancy import Footprint

# Instructions, counted in the code that the kernels write; of divisions and addresses assumed.
#: To find a slab's tap of the window; to address a load; to test it against the borders.
_TAP, _ADDRESS, _TEST = 24, 4, 6
#: To find a result's pixel, and to activate and store it.
_PIXEL, _STORE = 24, 8
#: Before the first slab.
_BEGIN = 100
#: Instructions to round an element for tensor cores, of which some come in pairs; and what one of
#: their multiplications counts as. Assumed.
_ROUND, _PRODUCT = 0.5, 8.0
#: Registers of a thread beside its tile, fragments and what it has read; and for each element of a
#: fragment. Fitted to 173 kernels that NVRTC compiled for sm_90: half of them take less.
_OTHER_REGISTERS, _FRAGMENT_REGISTERS = 24, 1.5
#: Of the kernel that adds partial sums: instructions to find a result's pixel, and to activate and
#: store it; registers of a thread.
_SUM_PIXEL, _SUM_STORE, _SUM_REGISTERS = 40, 12, 40
#: Rows of the weights that a thread of a vector product reads before it multiplies the first.
TOGETHER = 4

#: The cycles of a tile, and the tile.
Estimate = tuple[float, GemmTile]


@lru_cache(maxsize=1024)
def estimates(product: MatrixProduct, gpu: TargetGpu, precision: str) -> tuple[Estimate, ...]:
    """Return estimated cycles and tile of every sensible tile, the fastest first.

    Of tiles with equal cycles the one with fewer splits is first.
    """
    tiles = tiles_of(product, precision)
    found = [(contraction_cycles(product, tile, gpu, precision), tile) for tile in tiles]
    return tuple(sorted(found, key=lambda estimate: (estimate[0], estimate[1].splits)))


def tile_count(product: MatrixProduct, tile: GemmTile) -> int:
    """Return the number of tiles into which the results are cut."""
    columns = sum(ceil(part / tile.columns) for part in product.parts)
    return ceil(product.rows / tile.rows) * columns


def block_count(product: MatrixProduct, tile: GemmTile) -> int:
    """Return the number of blocks of threads that multiply."""
    return tile_count(product, tile) * tile.splits


def contraction_cycles(
    product: MatrixProduct, tile: GemmTile, gpu: TargetGpu, precision: str
) -> float:
    """Return the cycles from the first block to the last, if cut into ``tile``."""
    cycles = product_cycles(product, tile, gpu, precision)
    if tile.splits > 1:
        cycles += gpu.edge_cycles + _sum_cycles(product, tile, sum_widths(product, tile, gpu), gpu)
    return round(cycles, 1)


def product_cycles(product: MatrixProduct, tile: GemmTile, gpu: TargetGpu, precision: str) -> float:
    """Return the cycles of the multiplying kernel alone."""
    work = product_work(product, tile, precision)
    cycles = grid_cycles(work, block_count(product, tile), gpu)
    return max(cycles, product_bytes(product, precision) / gpu.memory_bytes) + (
        _partial_bytes(product, tile) / (CACHE_BYTES * gpu.processors)
    )


def product_bytes(product: MatrixProduct, precision: str) -> float:
    """Return the bytes of the weights and the data."""
    return _stored_bytes(precision) * (product.depth * product.columns + product.elements)


def _partial_bytes(product: MatrixProduct, tile: GemmTile) -> int:
    """Return the bytes of partial sums that are written and read."""
    return 2 * 4 * tile.splits * product.rows * product.columns if tile.splits > 1 else 0


def product_work(product: MatrixProduct, tile: GemmTile, precision: str) -> BlockWork:
    """Return the work of a block of the multiplying kernel."""
    make = _vectors if product.vectors else _slabs
    return make(product, tile, precision)


def sum_widths(product: MatrixProduct, tile: GemmTile, gpu: TargetGpu) -> list[int]:
    """Return the channels that a thread of the second kernel adds, for each store.

    They are four, or one if that is estimated to be faster.
    """
    widest = [width for _, width in product.stores]
    choices = [widest, [1] * len(widest)]
    return min(choices, key=lambda widths: _sum_cycles(product, tile, widths, gpu))


def sum_blocks(product: MatrixProduct, widths: list[int]) -> list[int]:
    """Return the number of blocks of each store of the second kernel."""
    stores = zip(product.stores, widths, strict=True)
    return [ceil(product.rows * count // width / THREADS) for (count, _), width in stores]


def sum_work(tile: GemmTile, width: int) -> BlockWork:
    """Return the work of a block of the second kernel."""
    together = min(IN_FLIGHT, tile.splits)
    return BlockWork(
        Footprint(THREADS, _SUM_REGISTERS + together * width, 0),
        steps=ceil(tile.splits / together),
        beside=2.0 * together,
        products=0.0,
        after=together * width,
        once=_SUM_PIXEL + _SUM_STORE * width,
        nbytes=4.0 * together * width * THREADS,
        shared=0.0,
    )


def _sum_cycles(product: MatrixProduct, tile: GemmTile, widths: list[int], gpu: TargetGpu) -> float:
    return grid_cycles(sum_work(tile, max(widths)), sum(sum_blocks(product, widths)), gpu)


def _slabs(product: MatrixProduct, tile: GemmTile, precision: str) -> BlockWork:
    """Return the work of a block that multiplies slabs in shared memory."""
    width = WIDE if product.wide else 1
    left = ceil(tile.rows / (tile.threads * width // tile.depth))
    right = ceil(tile.depth / (tile.threads * WIDE // tile.columns))
    tests = _TEST if product.bordered else 0
    fetch = _TAP + left * (_ADDRESS + tests + width) + right * _ADDRESS
    keep = left * width + right
    if precision == "float32":
        own_depth, extents = tile.depth // tile.teams, (tile.thread_rows, tile.thread_columns)
        held, kept = prod(extents), sum(extents)
        loads = own_depth * sum(ceil(n / WIDE) for n in extents)
        turns = own_depth * sum(ceil(n / 2) for n in extents)
        products: float = own_depth * held
        waits = own_depth
    else:
        loads, multiplications, held = warp_instructions(tile, precision)
        kept, turns, products = held, loads, _ROUND * loads + _PRODUCT * multiplications
        waits = tile.depth // tile.teams // MMA_DEPTH[precision]
    results = tile.rows * tile.columns // tile.threads
    rows = max(1, results // WIDE) if tile.teams > 1 else tile.thread_rows
    store = rows * _PIXEL + results * _STORE
    if tile.teams > 1:
        store += held + results * tile.teams
    registers = held + ceil(_FRAGMENT_REGISTERS * kept) + left * width + right * WIDE
    footprint = Footprint(tile.threads, min(255, registers + _OTHER_REGISTERS), slab_bytes(tile))
    steps = ceil(ceil(product.depth / tile.depth) / tile.splits)
    return BlockWork(
        footprint,
        steps,
        beside=fetch + loads,
        products=products,
        after=keep,
        # The first slab is fetched before any is multiplied.
        once=_BEGIN + fetch + keep + store,
        nbytes=_stored_bytes(precision) * tile.depth * (tile.rows + tile.columns),
        shared=ceil(tile.threads / WARP) * (turns + left * width + right * WIDE),
        turns=waits,
    )


def _vectors(product: MatrixProduct, tile: GemmTile, precision: str) -> BlockWork:
    """Return the work of a block whose teams read rows of the weights (vector products)."""
    rows = tile.rows
    deep = ceil(ceil(product.depth / tile.depth) / tile.splits)
    once = rows * _PIXEL + tile.teams * WIDE + _STORE * WIDE
    footprint = Footprint(tile.threads, _OTHER_REGISTERS + 8 * rows + WIDE * TOGETHER, 2048 * rows)
    return BlockWork(
        footprint,
        steps=ceil(deep / TOGETHER),
        beside=TOGETHER * (rows + 1) * _ADDRESS,
        products=0.0,
        after=TOGETHER * rows * WIDE,
        once=once,
        nbytes=_stored_bytes(precision) * TOGETHER * tile.depth * (tile.columns + rows),
        shared=0.0,
    )


def _stored_bytes(precision: str) -> float:
    return 2.0 if precision == "float16" else 4.0
