"""From a kernel's spec to machine code."""

from __future__ import annotations

from typing import Any

import tvm

from runtime_ext.kernels.artefact import Artefact, KernelPhase
from runtime_ext.kernels.contraction import contraction
from runtime_ext.kernels.generic import Generic, Scheduled, lower_generic
from runtime_ext.kernels.interleave import interleave
from runtime_ext.kernels.interpolation import interpolation
from runtime_ext.kernels.mean import mean
from runtime_ext.kernels.normalisation import normalisation
from runtime_ext.kernels.phases import Phase, Phases
from runtime_ext.kernels.pointwise import pointwise
from runtime_ext.kernels.pooling import pooling
from runtime_ext.kernels.product import product
from runtime_ext.kernels.spec import (
    Contraction,
    Finer,
    Interleave,
    Interpolation,
    Mean,
    Normalisation,
    Pooling,
    Product,
    Spec,
)
from runtime_ext.kernels.vector_unit import VectorUnit


def build_kernel(
    spec: Spec | Generic | Scheduled, key: str, target: Any, unit: VectorUnit
) -> tuple[Artefact, Any]:
    """Compile a kernel.

    Returns
    -------
    tuple
        Its description, and the compiled ``tvm.runtime.Module``.
    """
    phases = tir_of(spec, target, unit)
    names = [f"k{key}_{i}" for i in range(len(phases.phases))]
    module = tvm.IRModule(
        {
            name: phase.function.with_attr("global_symbol", name)
            for name, phase in zip(names, phases.phases, strict=True)
        }
    )
    # TVM's other pipeline is for schedules of blocks; it would take four times as long on ours.
    pipeline = "s_tir" if isinstance(spec, (Generic, Scheduled)) else "tirx"
    compiled = tvm.tirx.build(module, target=target, pipeline=pipeline)
    artefact = Artefact(
        key=key,
        phases=tuple(
            KernelPhase(name, phase.tiles, phase.arguments)
            for name, phase in zip(names, phases.phases, strict=True)
        ),
        scratch=phases.scratch,
    )
    return artefact, compiled


def tir_of(spec: Spec | Generic | Scheduled, target: Any, unit: VectorUnit) -> Phases:
    """The TIR of a kernel."""
    if isinstance(spec, (Generic, Scheduled)):
        return lower_generic(spec, target)
    if isinstance(spec, Finer):
        write = pooling if isinstance(spec.kernel, Pooling) else pointwise
        function, tiles = write(spec.kernel, unit, finer=True)
    elif isinstance(spec, Contraction):
        function, tiles = contraction(spec, unit)
    elif isinstance(spec, Pooling):
        function, tiles = pooling(spec, unit)
    elif isinstance(spec, Mean):
        function, tiles = mean(spec, unit)
    elif isinstance(spec, Product):
        function, tiles = product(spec, unit)
    elif isinstance(spec, Normalisation):
        function, tiles = normalisation(spec, unit)
    elif isinstance(spec, Interpolation):
        function, tiles = interpolation(spec, unit)
    elif isinstance(spec, Interleave):
        function, tiles = interleave(spec, unit)
    else:
        function, tiles = pointwise(spec, unit)
    return Phases((Phase(function, tiles, tuple(range(len(spec.buffers)))),), ())
