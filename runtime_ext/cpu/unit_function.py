"""Write a unit as one TIR function, which TVM compiles and calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from runtime_ext.cpu.kernel_build import tir_of
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import ON_STACK, sequence
from runtime_ext.kernels.phases import Phase
from runtime_ext.units.unit import UnitPlan

#: The pattern of functions that TVM fuses with no others.
_OPAQUE = 8


def unit_function(plan: UnitPlan, target: tvm.target.Target, isa: Isa) -> Any:
    """Return the function of a unit's buffers: inputs, constants, outputs and scratch.

    Phases run one after another; the tiles of each are a parallel loop.
    """
    types = (*plan.inputs, *plan.constant_types, *plan.outputs, *plan.scratch)
    buffers = [tirx.decl_buffer(t.shape, t.dtype, f"b{i}") for i, t in enumerate(types)]
    body: list[Any] = []
    for kernel in plan.kernels:
        phases = tir_of(kernel.spec, target, isa)
        # Memory that a function allocates is not seen by all that use it: TVM may leave it out.
        own = [tirx.decl_buffer(shape, dtype, "scratch") for shape, dtype in phases.scratch]
        given = [*(buffers[place] for place in kernel.buffers), *own]
        body += [_all_tiles(phase, given) for phase in phases.phases]
        buffers += own
    root = s_tir.SBlock([], [], [], "root", sequence(body))
    function = tirx.PrimFunc(buffers, s_tir.SBlockRealize([], True, root))
    return function.with_attrs({"op_pattern": _OPAQUE, "tirx.noalias": True})


def _all_tiles(phase: Phase, buffers: Sequence[Any]) -> Any:
    """Return the loop over all tiles of a phase, which gets some of the buffers."""
    *own, begin, end = phase.function.params
    tile = tirx.Var("tile", begin.ty)
    # A single one is in no loop, which would wake TVM's threads.
    first = tirx.IntImm(begin.ty.dtype, 0) if phase.tiles == 1 else tile
    new = {buffer: buffers[place] for buffer, place in zip(own, phase.arguments, strict=True)}
    new |= {begin: first, end: first + 1}
    body = tvm_ffi.structural_map(phase.function.body, (tvm.ir.Var, lambda v: new.get(v, v)))
    body = _allocated_plainly(body)
    if phase.tiles == 1:
        return body
    return tirx.For(tile, 0, phase.tiles, tirx.ForKind.PARALLEL, body)


def _allocated_plainly(body: Any) -> Any:
    """Return statements in which memory of :meth:`Code.on_stack` is allocated as numbers.

    TVM's StorageRewrite allocates too little where a buffer of vectors is another one of numbers.
    """
    vectors: list[Any] = []

    def allocation(statement: Any) -> Any:
        if ON_STACK not in statement.annotations:
            return statement
        vectors.append(statement.buffer)
        return tirx.Evaluate(tirx.IntImm("int32", 0))

    def alias(statement: Any) -> Any:
        (buffer,) = statement.data.args
        is_vectors = any(map(buffer.same_as, vectors))
        return tirx.AllocBuffer(statement.buffer) if is_vectors else statement

    # Allocations stand before their aliases.
    callbacks = [(tirx.AllocBuffer, allocation), (tirx.DeclBuffer, alias)]
    return tvm_ffi.structural_map(body, callbacks)
