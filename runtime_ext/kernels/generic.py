"""Any operator that Relax legalises: TVM's own code, with a plain schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import GenericConst
from tvm.relax.backend import DispatchSortScan

from runtime_ext.kernels.default_schedule import default_schedule
from runtime_ext.kernels.float_edges import unsimplified, with_float_edges
from runtime_ext.kernels.function_builder import RELAX_BUILDERS
from runtime_ext.kernels.phases import Phases, split_phases
from runtime_ext.kernels.relax_function import calling_module, node_digest, operator_name
from runtime_ext.kernels.scatter import scatter_of_rows
from tvm_ios.errors import UserError
from tvm_ios.shapes.extent import symbols_in

_SCANS = frozenset({"relax.cumsum", "relax.cumprod"})


@dataclass(frozen=True, slots=True)
class Generic:
    """A Relax function of one operator, in the model's layouts."""

    #: The function; its parameters and then its results are the kernel's buffers.
    function: Any
    #: The buffers' shapes and types, for the key.
    shapes: tuple[tuple[tuple[int, ...], str], ...]

    @property
    def name(self) -> str:
        """The operator's name, or ``tir.`` and the name of the TIR function that is called."""
        return _name(self.function)

    def __repr__(self) -> str:
        return f"Generic({node_digest(self.function)}, {self.shapes})"


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A scheduled PrimFunc, in the model's layouts."""

    function: Any
    shapes: tuple[tuple[tuple[int, ...], str], ...]

    def __repr__(self) -> str:
        return f"Scheduled({node_digest(self.function)}, {self.shapes})"


def lower_generic(spec: Generic | Scheduled, target: Any) -> Phases:
    """Legalise, fuse into one PrimFunc, schedule, and split into phases, as far as needed."""
    if isinstance(spec, Scheduled):
        return split_phases(spec.function)
    function = scatter_of_rows(spec.function) or prim_func(spec.function, target)
    try:
        return split_phases(default_schedule(with_float_edges(function)), symbols_in(spec.shapes))
    except Exception as error:
        # TIR that a user wrote may not be what schedules expect.
        raise NoKernelError(_refusal(spec.function, _reason(error))) from error


class NoKernelError(UserError):
    """An error: TVM does not lower an operator to one function."""


def prim_func(function: Any, target: Any) -> Any:
    """Return the PrimFunc that TVM's legalisation and fusion make of a one-operator function.

    Raise NoKernelError if they make none of it, or several.
    """
    primitive = function.with_attr("Primitive", True)
    values = (binding.value for block in function.body.blocks for binding in block.bindings)
    names = {operator_name(value) for value in values if isinstance(value, relax.Call)}
    # For GPUs TVM's scans take dozens of launches or several functions; for CPUs they go by rows.
    scanned_for = tvm.target.Target("llvm") if names & _SCANS else target
    dispatch: Any = DispatchSortScan()
    passes = [
        relax.transform.LegalizeOps(),
        # Fusing needs an operator in the place of a constant scalar.
        _NumbersAsOperators(),
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseTIR(),
    ]
    with RELAX_BUILDERS, target:
        try:
            # FuseTIR needs a function that is called.
            with scanned_for:
                module = dispatch(calling_module(primitive, "kernel"))
            module = tvm.transform.Sequential(passes)(module)
        except Exception as error:
            raise NoKernelError(_refusal(function, _reason(error))) from error
    functions = [f for f in module.functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
    if len(functions) != 1:
        raise NoKernelError(_refusal(function, f"it makes {len(functions)} of it"))
    kernel = unsimplified(functions[0])
    return _without_layouts(kernel) if names & _SCANS else kernel


def _without_layouts(function: Any) -> Any:
    """Return a PrimFunc whose buffers have no layouts: in a scan's are unknown variables."""
    plain = {
        buffer: tirx.decl_buffer(buffer.ty.shape, buffer.ty.dtype, buffer.name, layout=None)
        for buffer in function.params
        if hasattr(buffer.ty, "layout")
    }
    body = tvm_ffi.structural_map(function.body, (tvm.ir.Var, lambda v: plain.get(v, v)))
    params = [plain.get(parameter, parameter) for parameter in function.params]
    return tirx.PrimFunc(params, body).with_attrs(dict(function.attrs.items()))


def _reason(error: Exception) -> str:
    return str(error).strip().split("\n")[-1].rpartition("is false: ")[2][:200]


def _refusal(function: Any, reason: str) -> str:
    return (
        f"there is no kernel for {_name(function)}, which TVM {tvm.__version__} does not lower "
        f"to one function ({reason}): write the model without it, or let TVM compile the scheduled "
        "module"
    )


def _name(function: Any) -> str:
    calls = [binding.value for binding in function.body.blocks[0].bindings]
    # Skip casts around the operator.
    call = next((c for c in calls if operator_name(c) != "relax.astype"), calls[0])
    name = operator_name(call)
    return f"tir.{call.args[0].name_hint}" if name == "relax.call_tir" else name


@relax.expr_functor.mutator
class _NumberMutator(relax.PyExprMutator):
    def visit_generic_const_(self, op: GenericConst) -> Any:
        if len(op.ty.shape):
            return op
        dtype, value = str(op.ty.dtype), float(op.value.numpy())
        if math.isfinite(value):
            return self.builder_.emit(relax.op.full((), op, dtype))
        # TVM 0.27 cannot write infinities and NaN as constants: compute them by exp or log of
        # finite numbers.
        finite, function = (1e4, relax.op.exp) if value > 0 else (0.0, relax.op.log)
        finite = -1.0 if math.isnan(value) else finite
        full = relax.op.full((), relax.const(finite, dtype), dtype)
        return self.builder_.emit(function(self.builder_.emit(full)))


@tvm.transform.module_pass(opt_level=0, name="NumbersAsOperators")
class _NumbersAsOperators:
    """A pass that replaces scalar constants by ``relax.full``."""

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        mutator = _NumberMutator(mod)
        for variable, function in mod.functions_items():
            if isinstance(function, relax.Function):
                mutator.builder_.update_func(variable, mutator.visit_expr(function))
        return mutator.builder_.finalize()
