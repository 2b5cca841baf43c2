"""The choice of a contraction's tile on the GPU that kernels are compiled for."""

from __future__ import annotations

from collections.abc import Callable

from runtime_ext.cuda.kernels.contraction_shape import product_of
from runtime_ext.kernels.spec import Contraction
from tvm_ios.costs.cuda_kernels import product_estimate
from tvm_ios.costs.cuda_kernels.product_estimate import Estimate, contraction_cycles
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu
from tvm_ios.costs.cuda_kernels.tile import GemmTile, whole_tiles

#: Fewer and more blocks than this, to those of the best tile, count as coarser and finer; and
#: what takes longer than this, to its estimate, is not tried.
_AT_MOST, _AT_LEAST, _MOST_TIME = 2 / 3, 3 / 2, 2.0


def best_tile(spec: Contraction, gpu: TargetGpu, precision: str) -> GemmTile:
    """Return the tile of the least estimated time."""
    return estimates(spec, gpu, precision)[0][1]


def estimates(spec: Contraction, gpu: TargetGpu, precision: str) -> tuple[Estimate, ...]:
    """Return estimated cycles and tile of every sensible tile, the fastest first.

    Of tiles with equal cycles the one with fewer splits is first.
    """
    return product_estimate.estimates(product_of(spec), gpu, precision)


def block_count(spec: Contraction, tile: GemmTile) -> int:
    """Return the number of blocks of threads that multiply."""
    return product_estimate.block_count(product_of(spec), tile)


def best_product_tile(spec: Contraction, gpu: TargetGpu, precision: str) -> GemmTile:
    """Return the best tile that uses shared memory and does not split the reduction among blocks.

    Few rows do not make it a vector product.
    """
    product = product_of(spec)
    tiles = whole_tiles(product, precision)
    return min(tiles, key=lambda tile: contraction_cycles(product, tile, gpu, precision))


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
