"""Build the CUDA kernels, bound to threads, of a kernel's spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from runtime_ext.cuda.kernels.contraction import contraction
from runtime_ext.cuda.kernels.generic import bound_kernels, lower_generic
from runtime_ext.cuda.kernels.interpolation import interpolation
from runtime_ext.cuda.kernels.pointwise import interleave, pointwise
from runtime_ext.cuda.kernels.product import product
from runtime_ext.cuda.kernels.reduction import mean, normalisation
from runtime_ext.cuda.kernels.window import pooling
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
    Spec,
)
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu

#: Blocks for each multiprocessor of the fine form of a kernel that reduces little, if it has them.
_MORE = 4

#: Who writes a spec whose kernel is the same on every GPU and in every precision.
_WRITERS: dict[type, Callable[..., Any]] = {
    Normalisation: normalisation,
    Interpolation: interpolation,
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
    least_blocks = 1
    if isinstance(spec, Finer):
        spec, least_blocks = spec.kernel, _MORE * gpu.processors
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
