"""Build the CUDA kernels, bound to threads, of a kernel's spec."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tvm import tirx

from runtime_ext.cuda.kernels.contraction import contraction
from runtime_ext.cuda.kernels.contraction_shape import product_of
from runtime_ext.cuda.kernels.generic import bound_kernels, lower_generic
from runtime_ext.cuda.kernels.interpolation import interpolation, resampling
from runtime_ext.cuda.kernels.pointwise import interleave, pointwise
from runtime_ext.cuda.kernels.product import block_work, product
from runtime_ext.cuda.kernels.reduction import mean, normalisation
from runtime_ext.cuda.kernels.window import pooling, sliding_window
from runtime_ext.kernels.generic import Generic, Scheduled
from runtime_ext.kernels.phases import Phase, Phases
from runtime_ext.kernels.spec import (
    Contraction,
    Finer,
    Interleave,
    Interpolation,
    Mean,
    Normalisation,
    Pointwise,
    Pooling,
    Product,
    Resampling,
    Spec,
)
from tvm_ios.costs.cuda_kernels.block_work import BlockWork
from tvm_ios.costs.cuda_kernels.product_estimate import product_work, sum_widths, sum_work
from tvm_ios.costs.cuda_kernels.stream_estimate import mean_channels, mean_work
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu
from tvm_ios.costs.cuda_kernels.tile import GemmTile
from tvm_ios.costs.cuda_kernels.window_estimate import best_cut, window_work

#: Blocks for each multiprocessor of the fine form of a kernel that reduces little, if it has them.
_MORE = 4

#: Who writes a spec whose kernel is the same on every GPU and in every precision.
_WRITERS: dict[type, Callable[..., Any]] = {
    Normalisation: normalisation,
    Interpolation: interpolation,
    Resampling: resampling,
    Interleave: interleave,
    Pointwise: pointwise,
}


def kernels_of(spec: Spec | Generic | Scheduled, precision: str, gpu: TargetGpu) -> Phases:
    """Return the kernels of a spec, to be launched in order: each is a phase of one tile.

    For ``precision`` see :class:`runtime_ext.cuda.compiler.CudaKernelCompiler`.
    """
    dtype = "float16" if precision == "float16" else "float32"
    if isinstance(spec, Scheduled):
        return bound_kernels(spec.function)
    if isinstance(spec, Generic):
        return lower_generic(spec, dtype, gpu.arch)
    spec, least_blocks = _least_blocks(spec, gpu)
    buffers = [tirx.decl_buffer(s, dtype, f"b{i}") for i, s in enumerate(spec.buffers)]
    if isinstance(spec, Contraction):
        return contraction(spec, buffers, precision, gpu)
    function: Any
    if isinstance(spec, Pooling):
        function = pooling(spec, buffers, gpu, least_blocks)
    elif isinstance(spec, Product):
        function = product(spec, buffers, gpu, precision)
    elif isinstance(spec, Mean):
        function = mean(spec, buffers, gpu)
    else:
        function = _WRITERS[type(spec)](spec, buffers)
    return Phases((Phase(function, 1, tuple(range(len(buffers)))),), ())


def block_works(
    spec: Spec | Generic | Scheduled, precision: str, gpu: TargetGpu
) -> tuple[BlockWork, ...]:
    """Return the work of a block of each kernel of a spec, by which it is cut; none if it is not.

    Their blocks and footprints are those of the compiled kernels.
    """
    if isinstance(spec, Generic | Scheduled):
        return ()
    spec, least_blocks = _least_blocks(spec, gpu)
    if isinstance(spec, Contraction):
        tile, shape = spec.blocking, product_of(spec)
        assert isinstance(tile, GemmTile)
        multiplying = product_work(shape, tile, precision)
        if tile.splits == 1:
            return (multiplying,)
        return multiplying, sum_work(tile, max(sum_widths(shape, tile, gpu)))
    if isinstance(spec, Product):
        return (block_work(spec, gpu, precision),)
    if isinstance(spec, Pooling):
        window = sliding_window(spec)
        return (window_work(window, best_cut(window, gpu, least_blocks)),)
    if isinstance(spec, Mean):
        pixels = prod(spec.pixels)
        return (mean_work(pixels, mean_channels(spec.batch, pixels, spec.channels, gpu)),)
    return ()


def _least_blocks(spec: Spec, gpu: TargetGpu) -> tuple[Any, int]:
    """Return the kernel that a spec is a finer form of, or itself, and the fewest blocks of it."""
    return (spec.kernel, _MORE * gpu.processors) if isinstance(spec, Finer) else (spec, 1)
