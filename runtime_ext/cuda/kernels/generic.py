"""Any operator that Relax legalises: TVM's own code, scheduled for GPUs by TVM's DLight."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.s_tir import dlight

from runtime_ext.cuda.kernels.launches import launches_at_root, rows_bound
from runtime_ext.cuda.machine_code.source import cuda_target
from runtime_ext.kernels.function_builder import FunctionBuilder
from runtime_ext.kernels.generic import Generic, prim_func
from runtime_ext.kernels.operator_function import astype, replace_variables
from runtime_ext.kernels.phases import Phase, Phases, RootPart, split_root
from runtime_ext.kernels.relax_function import with_tir
from tvm_ios.errors import UserError


def lower_generic(spec: Generic, dtype: str, arch: str) -> Phases:
    """Legalise a function, fuse it into one PrimFunc, schedule it, and split it into kernels.

    ``dtype`` is the type that the program stores in place of float32; the kernels compute in
    float32. Raise UserError if TVM cannot make CUDA kernels of the function.
    """
    try:
        if dtype == "float32":
            return _lowered(spec.function, arch)
        try:
            return _lowered(_stored_as(spec.function, dtype), arch)
        except Exception:
            # What TVM wrote by hand cannot be fused, or not scheduled with what is fused to it.
            return _between_casts(spec, dtype, arch)
    except Exception as error:
        # TIR that someone wrote need not be what schedules are made for.
        raise no_cuda_code(spec) from error


def no_cuda_code(spec: Generic) -> UserError:
    """Return the error for an operator of which TVM can make no CUDA kernels."""
    return UserError(f"TVM has no CUDA code for the operator {spec.name}: express it in others")


def _lowered(function: Any, arch: str) -> Phases:
    scheduled = dlight_schedule(rows_bound(prim_func(function, cuda_target(arch))), arch)
    return bound_kernels(launches_at_root(scheduled))


def _between_casts(spec: Generic, dtype: str, arch: str) -> Phases:
    """Return the operator's float32 kernels between kernels that only cast its tensors."""
    wide = [i for i, (_, kind) in enumerate(spec.shapes) if kind == "float32"]
    copies = {i: len(spec.shapes) + number for number, i in enumerate(wide)}
    casts_before: list[Phase] = []
    casts_after: list[Phase] = []
    for i in wide:
        shape, _ = spec.shapes[i]
        if i < len(spec.function.params):
            (cast,) = _lowered(astype(shape, dtype, "float32"), arch).phases
            casts_before.append(replace(cast, arguments=(i, copies[i])))
        else:
            (cast,) = _lowered(astype(shape, "float32", dtype), arch).phases
            casts_after.append(replace(cast, arguments=(copies[i], i)))
    kernel = _lowered(spec.function, arch)
    scratch = (*(spec.shapes[i] for i in wide), *kernel.scratch)
    places = [copies.get(i, i) for i in range(len(spec.shapes))]
    places += range(len(spec.shapes) + len(wide), len(spec.shapes) + len(scratch))
    between = (replace(p, arguments=tuple(places[a] for a in p.arguments)) for p in kernel.phases)
    return Phases((*casts_before, *between, *casts_after), scratch)


def dlight_schedule(function: Any, arch: str) -> Any:
    """Bind a PrimFunc in block form to threads by TVM's DLight rules."""
    with cuda_target(arch):
        schedule: Any = dlight.ApplyDefaultSchedule(
            dlight.gpu.Matmul(),
            dlight.gpu.GEMV(),
            dlight.gpu.Reduction(),
            dlight.gpu.GeneralReduction(),
            dlight.gpu.Fallback(),
        )
        return schedule(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}))["main"]


def bound_kernels(function: Any) -> Phases:
    """Split a thread-bound PrimFunc in block form into kernels, one per root statement."""
    parts, scratch = split_root(function, device=True)
    return Phases(tuple(Phase(_kernel(part), 1, part.arguments) for part in parts), scratch)


def _kernel(part: RootPart) -> Any:
    function = tirx.PrimFunc(list(part.buffers), part.rooted(part.statement))
    return function.with_attr("tirx.noalias", True)


def _stored_as(function: Any, dtype: str) -> Any:
    """Return the function with its float32 parameters and results stored in another type."""
    builder = FunctionBuilder()
    params = [relax.Var(p.name, _stored(p.ty, dtype)) for p in function.params]

    def cast(value: Any, to: str) -> Any:
        source = {dtype: "float32", "float32": dtype}.get(to)
        if str(value.ty.dtype) != source:
            return value
        return builder.emit(relax.op.astype(value, to))

    with builder.function("kernel", params, private=True):
        with builder.dataflow():
            replacements: dict[Any, Any] = {
                old: cast(new, "float32") if str(old.ty.dtype) == "float32" else new
                for old, new in zip(function.params, params, strict=True)
            }
            for block in function.body.blocks:
                for binding in block.bindings:
                    replacements[binding.var] = builder.emit(
                        replace_variables(binding.value, replacements)
                    )
            result = replacements[function.body.body]
            if isinstance(result.ty, relax.TupleType):
                fields = [
                    cast(builder.emit(relax.TupleGetItem(result, i)), dtype)
                    for i in range(len(result.ty.fields))
                ]
                result = builder.emit_output(relax.Tuple(fields))
            else:
                result = builder.emit_output(cast(result, dtype))
        builder.emit_func_output(result)
    return with_tir(builder.finalize()["kernel"], function)


def _stored(ty: Any, dtype: str) -> Any:
    return relax.TensorType(ty.shape, dtype) if str(ty.dtype) == "float32" else ty
