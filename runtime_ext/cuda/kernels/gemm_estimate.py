"""An estimate of how long a contraction takes with a given tile: waves of blocks, and work."""

from __future__ import annotations

from math import ceil, prod

from runtime_ext.cuda.kernels.block_work import CACHE_BYTES, BlockWork, grid_cycles
from runtime_ext.cuda.kernels.contraction_shape import (
    block_count,
    depth_of,
    has_borders,
    is_vector_product,
    reads_wide,
    rows_of,
)
from runtime_ext.cuda.kernels.gemm import slab_bytes
from runtime_ext.cuda.kernels.gemv import TOGETHER
from runtime_ext.cuda.kernels.split_sum import sum_cycles
from runtime_ext.cuda.kernels.statements import WIDE
from runtime_ext.cuda.kernels.tensor_cores import warp_instructions
from runtime_ext.cuda.machine_code.target_gpu import TargetGpu
from runtime_ext.kernels.cut import GemmTile
from runtime_ext.kernels.spec import Contraction
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


def contraction_cycles(spec: Contraction, tile: GemmTile, gpu: TargetGpu, precision: str) -> float:
    """Return the cycles from a contraction's first block to its last, if cut into ``tile``.

    The spec's own blocking is ignored.
    """
    cycles = product_cycles(spec, tile, gpu, precision)
    if tile.splits > 1:
        cycles += gpu.launch_cycles + sum_cycles(spec, tile, gpu)
    return round(cycles, 1)


def product_cycles(spec: Contraction, tile: GemmTile, gpu: TargetGpu, precision: str) -> float:
    """Return the cycles of the multiplying kernel alone."""
    cycles = grid_cycles(product_work(spec, tile, precision), block_count(spec, tile), gpu)
    weights = depth_of(spec) * sum(spec.parts)
    data = spec.batch * prod(spec.window.input) * spec.channels * spec.groups
    cycles = max(cycles, _stored_bytes(precision) * (weights + data) / gpu.memory_bytes)
    if tile.splits > 1:
        moved = 2 * 4 * tile.splits * rows_of(spec) * sum(spec.parts)
        cycles += moved / (CACHE_BYTES * gpu.processors)
    return cycles


def product_work(spec: Contraction, tile: GemmTile, precision: str) -> BlockWork:
    """Return the work of a block of the multiplying kernel."""
    make = _vectors if is_vector_product(spec) else _slabs
    return make(spec, tile, precision)


def _slabs(spec: Contraction, tile: GemmTile, precision: str) -> BlockWork:
    """Return the work of a block that multiplies slabs in shared memory."""
    width = WIDE if reads_wide(spec) else 1
    left = ceil(tile.rows / (tile.threads * width // tile.depth))
    right = ceil(tile.depth / (tile.threads * WIDE // tile.columns))
    tests = _TEST if has_borders(spec.window) else 0
    fetch = _TAP + left * (_ADDRESS + tests + width) + right * _ADDRESS
    keep = left * width + right
    if precision == "float32":
        own_depth, extents = tile.depth // tile.teams, (tile.thread_rows, tile.thread_columns)
        held, kept = prod(extents), sum(extents)
        loads = own_depth * sum(ceil(n / WIDE) for n in extents)
        turns = own_depth * sum(ceil(n / 2) for n in extents)
        products: float = own_depth * held
    else:
        loads, multiplications, held = warp_instructions(tile, precision)
        kept, turns, products = held, loads, _ROUND * loads + _PRODUCT * multiplications
    results = tile.rows * tile.columns // tile.threads
    rows = max(1, results // WIDE) if tile.teams > 1 else tile.thread_rows
    store = rows * _PIXEL + results * _STORE
    if tile.teams > 1:
        store += held + results * tile.teams
    registers = held + ceil(_FRAGMENT_REGISTERS * kept) + left * width + right * WIDE
    footprint = Footprint(tile.threads, min(255, registers + _OTHER_REGISTERS), slab_bytes(tile))
    steps = ceil(ceil(depth_of(spec) / tile.depth) / tile.splits)
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
    )


def _vectors(spec: Contraction, tile: GemmTile, precision: str) -> BlockWork:
    """Return the work of a block whose teams read rows of the weights (vector products)."""
    rows = tile.rows
    deep = ceil(ceil(depth_of(spec) / tile.depth) / tile.splits)
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
