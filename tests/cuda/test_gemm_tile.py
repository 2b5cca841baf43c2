"""How contractions are cut when nothing is measured: by waves of blocks on the GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime_ext.cuda.kernels.gemm_tile import (
    best_tile,
    block_count,
    coarse_tile,
    estimates,
    fine_tile,
)
from runtime_ext.kernels.cut import UNCUT
from runtime_ext.kernels.expression import ACC, Access
from runtime_ext.kernels.spec import Contraction, Statement, Window
from tvm_ios.costs.cuda_kernels.block_work import BlockWork, grid_cycles
from tvm_ios.costs.cuda_kernels.target_gpu import gpu_of
from tvm_ios.devices.occupancy import Footprint

GPU = gpu_of("sm_90")
FREE_LAUNCHES, DEAR_LAUNCHES = replace(GPU, edge_cycles=0.0), replace(GPU, edge_cycles=1e6)


def contraction(pixels: int, depth: int, channels: int) -> Contraction:
    window = Window((1, pixels), (1, pixels), (1, 1), (1, 1), (0, 0), (1, 1))
    at = Access(0, 0, (0, 0, depth, 1))
    stored = Statement(ACC, Access(2, 0, (0, 0, channels, 1)), 0, channels)
    return Contraction(
        ((pixels, depth), (channels, depth), (pixels, channels)),
        1, window, depth, 1, at, ACC, 1, (channels,), UNCUT, (stored,),
    )  # fmt: skip


def work(threads: int = 128, registers: int = 64, steps: int = 4) -> BlockWork:
    return BlockWork(Footprint(threads, registers, 4096), steps, 100, 100, 10, 100, 1024, 50)


def test_a_wave_takes_as_long_as_a_block_and_more_waves_longer() -> None:
    one = grid_cycles(work(), 1, GPU)
    assert grid_cycles(work(), GPU.processors, GPU) == one
    cycles = [grid_cycles(work(), n, GPU) for n in range(1, 40 * GPU.processors, 61)]
    assert cycles == sorted(cycles)
    # A multiprocessor holds eight blocks of these registers: the ninth waits for all of them.
    eight, nine = (grid_cycles(work(), n * GPU.processors, GPU) for n in (8, 9))
    assert nine == eight + one
    assert grid_cycles(work(registers=32), 9 * GPU.processors, GPU) < nine


@pytest.mark.parametrize(
    "shape", [(289, 144, 12), (169, 256, 64), (49, 1056, 176), (49, 4608, 512)]
)
def test_small_results_occupy_more_of_a_gpu_than_the_largest_tiles(
    shape: tuple[int, int, int],
) -> None:
    spec = contraction(*shape)
    largest = max((t for _, t in estimates(spec, GPU, "float32")), key=lambda t: t.rows * t.columns)
    blocks = block_count(spec, best_tile(spec, GPU, "float32"))
    assert blocks >= 0.25 * GPU.processors
    assert blocks > block_count(spec, replace(largest, splits=1))


def test_what_a_launch_costs_decides_whether_blocks_share_a_reduction() -> None:
    deep, wide = contraction(49, 4608, 512), contraction(12544, 64, 256)
    assert best_tile(deep, FREE_LAUNCHES, "float32").splits > 1
    assert best_tile(deep, GPU, "float32").splits > 1
    assert best_tile(deep, DEAR_LAUNCHES, "float32").splits == 1
    assert best_tile(wide, GPU, "float32").splits == 1


def test_teams_share_a_reduction_where_results_are_few() -> None:
    assert best_tile(contraction(49, 512, 64), DEAR_LAUNCHES, "float32").teams > 1


def test_products_of_vectors_have_a_block_for_most_multiprocessors() -> None:
    spec = contraction(1, 512, 1000)
    tile = best_tile(spec, GPU, "float32")
    assert tile.rows == 1
    assert block_count(spec, tile) > 0.75 * GPU.processors
    assert best_tile(spec, replace(GPU, processors=8), "float32").columns > tile.columns


@pytest.mark.parametrize("shape", [(49, 4608, 512), (784, 576, 96), (3136, 64, 64)])
@pytest.mark.parametrize("precision", ["float32", "tf32", "float16"])
def test_coarse_and_fine_tiles(shape: tuple[int, int, int], precision: str) -> None:
    spec = contraction(*shape)
    best = best_tile(spec, GPU, precision)
    spec = replace(spec, blocking=best)
    coarse, fine = coarse_tile(spec, GPU, precision), fine_tile(spec, GPU, precision)
    assert coarse is not None or fine is not None
    assert coarse is None or block_count(spec, coarse) < block_count(spec, best)
    assert fine is None or block_count(spec, fine) > block_count(spec, best)
