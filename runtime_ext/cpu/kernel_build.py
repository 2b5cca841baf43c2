"""Compile a kernel's spec to machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import tirx

from runtime_ext.cpu.forms.registry import form_writers
from runtime_ext.cpu.kernels.attention import attention
from runtime_ext.cpu.kernels.chain import chain
from runtime_ext.cpu.kernels.contraction import contraction
from runtime_ext.cpu.kernels.interleave import interleave
from runtime_ext.cpu.kernels.interpolation import interpolation, resampling
from runtime_ext.cpu.kernels.mean import mean
from runtime_ext.cpu.kernels.normalisation import normalisation
from runtime_ext.cpu.kernels.open_contraction import open_contraction
from runtime_ext.cpu.kernels.pointwise import pointwise
from runtime_ext.cpu.kernels.pooling import pooling
from runtime_ext.cpu.kernels.product import product
from runtime_ext.cpu.kernels.recurrence import recurrence
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.artefact import Artefact, KernelPhase
from runtime_ext.kernels.chain import Attention, Chain, Chained
from runtime_ext.kernels.generic import Generic, Scheduled, lower_generic
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
    Recurrence,
    Resampling,
    Spec,
)
from runtime_ext.units.unit import FormKernel
from tvm_ios.errors import UserError
from tvm_ios.shapes.extent import symbols_in

_Kernel = Spec | Chained | FormKernel | Generic | Scheduled
_Writer = Callable[..., tuple[Any, int]]
#: The writers of specs that may have open extents: each returns a spec's PrimFunc and its number
#: of tiles.
_OPEN_WRITERS: dict[type, _Writer] = {
    Attention: attention,
    Chain: chain,
    Contraction: open_contraction,
    Interleave: interleave,
    Interpolation: interpolation,
    Mean: mean,
    Product: product,
    Normalisation: normalisation,
    Pointwise: pointwise,
    Pooling: pooling,
    Recurrence: recurrence,
    Resampling: resampling,
}
#: Those of specs of no form whose extents are numbers.
_WRITERS: dict[type, _Writer] = {**_OPEN_WRITERS, Contraction: contraction, Chain: chain}


_OF_TVM: Any = tirx.get_tir_pipeline("tirx")


def _register_pipeline(name: str, *first: Any) -> str:
    """Register a pipeline of some passes and the few of TVM that loops over flat buffers need.

    All passes would double compile time: flattening one-dimensional indices, common expressions
    (which LLVM finds as well), and checks of each buffer's shape and type at every call. Each
    :class:`~runtime_ext.units.unit.UnitPlan` compares these once instead.
    """
    passes = [*first, tirx.transform.MakePackedAPI(), tirx.transform.SkipAssert()]
    lower = tvm.transform.Sequential(passes)
    tirx.register_tir_pipeline(name, lambda: (lower, *_OF_TVM[1:]))
    return name


_OF_TILES = _register_pipeline("tvm_ios.tiles", tirx.transform.StmtSimplify())
#: Simplified, each index would be a polynomial of the extents: as fast, and up to six times as long
#: to compile.
_OF_OPEN_TILES = _register_pipeline("tvm_ios.open_tiles")


def build_kernel(spec: _Kernel, key: str, target: Any, isa: Isa) -> tuple[Artefact, Any]:
    """Compile a kernel; return its description and the ``tvm.runtime.Module``."""
    phases = tir_of(spec, target, isa)
    names = [f"k{key}_{i}" for i in range(len(phases.phases))]
    module = tvm.IRModule(
        {
            name: phase.function.with_attr("global_symbol", name)
            for name, phase in zip(names, phases.phases, strict=True)
        }
    )
    if isinstance(spec, (Generic, Scheduled)):
        pipeline = "s_tir"
    else:
        pipeline = _OF_OPEN_TILES if any(p.scalars for p in phases.phases) else _OF_TILES
    compiled = tirx.build(module, target=target, pipeline=pipeline)
    artefact = Artefact(
        key=key,
        phases=tuple(
            KernelPhase(name, phase.tiles, phase.arguments, phase.scalars)
            for name, phase in zip(names, phases.phases, strict=True)
        ),
        scratch=phases.scratch,
    )
    return artefact, compiled


def tir_of(spec: _Kernel, target: Any, isa: Isa) -> Phases:
    """Return the TIR of a kernel."""
    if isinstance(spec, (Generic, Scheduled)):
        return lower_generic(spec, target)
    scalars = tuple(symbol.name for symbol in symbols_in(spec))
    writers = (_OPEN_WRITERS if scalars else _WRITERS) | form_writers()
    kernel, options = (spec.kernel, {"finer": True}) if isinstance(spec, Finer) else (spec, {})
    if scalars and type(kernel) not in writers:
        raise UserError(
            f"there is no kernel of open extents for {type(kernel).__name__}: give exact shapes"
        )
    function, tiles = writers[type(kernel)](kernel, isa, **options)
    return Phases((Phase(function, tiles, tuple(range(len(spec.buffers))), scalars),), ())
