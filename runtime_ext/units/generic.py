"""Any operator that Relax legalises: TVM's own code, with a plain schedule."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm
import tvm_ffi
from tvm import relax, s_tir
from tvm.ir import GenericConst
from tvm.relax.backend import DispatchSortScan

from runtime_ext.kernels.phases import Phases, split_phases
from runtime_ext.units.draft import PLAIN, Draft
from runtime_ext.units.relax_function import calling_module, operator_name, tensor_types
from runtime_ext.units.tir_calls import with_tir
from runtime_ext.units.values import Stored, Value
from tvm_ios.errors import UserError

if TYPE_CHECKING:
    from runtime_ext.units.planner import Planner

_SCANS = frozenset({"relax.cumsum", "relax.cumprod"})
#: Relax builds and legalises one function at a time: its builders share a stack.
_LEGALISING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Generic:
    """A Relax function of one operator, in the model's layouts.

    Attributes
    ----------
    function
        The function; its parameters and then its results are the kernel's buffers.
    shapes
        The buffers' shapes and types, for the key.
    """

    function: Any
    shapes: tuple[tuple[tuple[int, ...], str], ...]

    @property
    def name(self) -> str:
        """The operator's, or ``tir.`` and that of the TIR function that is called."""
        return _name(self.function)

    def __repr__(self) -> str:
        digest = tvm_ffi.structural_hash(self.function, map_free_vars=True)
        return f"Generic({digest}, {self.shapes})"


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A scheduled PrimFunc, in the model's layouts."""

    function: Any
    shapes: tuple[tuple[tuple[int, ...], str], ...]

    def __repr__(self) -> str:
        digest = tvm_ffi.structural_hash(self.function, map_free_vars=True)
        return f"Scheduled({digest}, {self.shapes})"


def generic_rule(planner: Planner, var: Any, call: Any) -> None:
    """Make an operator a kernel of TVM's; its tensors are first brought into the IR's layout."""
    arguments = [a for a in leaves(call) if not isinstance(a, GenericConst)]
    arguments = list(dict.fromkeys(arguments))
    function = with_tir(_outline(call, arguments), planner.function)
    opaque(planner, var, arguments, lambda shapes: Generic(function, shapes))


def opaque(
    planner: Planner,
    var: Any,
    arguments: Sequence[Any],
    make: Callable[[tuple[tuple[tuple[int, ...], str], ...]], Generic | Scheduled],
) -> None:
    """Bind a variable to what a kernel makes whose buffers are whole and in the IR's layout.

    Parameters
    ----------
    planner, var
        Of the unit.
    arguments
        Variables that the kernel reads, in the order of its parameters.
    make
        The kernel's spec from the shapes and types of its buffers.
    """
    storages = [_plain(planner, planner.value(a)).storage for a in arguments]
    fields = tensor_types(var.ty)
    results: list[Value] = []
    for field in fields:
        shape = tuple(int(e) for e in field.shape)
        home = planner.home(var) if len(fields) == 1 else None
        if home is None or not planner.is_whole(home):
            home = planner.scratch(shape, str(field.dtype), layout="plain")
        results.append(home)
        storages.append(home.storage)
    made = [planner.storages[s] for s in storages]
    spec = make(tuple((s.shape, s.dtype) for s in made))
    number = planner.add(Draft(None, (1, 1, 1, 1), PLAIN, generic=(spec, tuple(storages))))
    for storage in made[len(arguments) :]:
        storage.producer = number
    planner.bind(var, results[0] if not isinstance(var.ty, relax.TupleType) else results)


def copy_whole(planner: Planner, value: Stored, target: Stored) -> None:
    """Write a whole buffer of any type to another one in the IR's layout."""
    source, place = (planner.storages[stored.storage] for stored in (value, target))
    assert planner.is_whole(value)
    assert planner.is_whole(target)
    shapes = ((source.shape, source.dtype), (place.shape, place.dtype))
    spec = Generic(astype(value.shape, value.dtype, value.dtype), shapes)
    storages = (value.storage, target.storage)
    place.producer = planner.add(Draft(None, (1, 1, 1, 1), PLAIN, generic=(spec, storages)))


def astype(shape: Sequence[int], dtype: str, wanted: str) -> Any:
    """A Relax function that converts a tensor, or copies it."""
    var = relax.Var("p0", relax.TensorType(shape, dtype))
    return _outline(relax.op.astype(var, wanted), [var])


def lower_generic(spec: Generic | Scheduled, target: Any) -> Phases:
    """Legalise, fuse into one PrimFunc, schedule, and split into phases, as far as needed."""
    if isinstance(spec, Scheduled):
        return split_phases(spec.function)
    function = prim_func(spec.function, target)
    try:
        return split_phases(default_schedule(function))
    except Exception as error:
        # TIR that someone wrote need not be what schedules are made for.
        raise NoKernelError(_refusal(spec.function, _reason(error))) from error


class NoKernelError(UserError):
    """An operator that TVM does not lower to one function."""


def prim_func(function: Any, target: Any) -> Any:
    """The PrimFunc that TVM's legalisation and fusion make of a Relax function of one operator.

    Raises
    ------
    NoKernelError
        If they make none of it, or several.
    """
    primitive = function.with_attr("Primitive", True)
    bound = (binding.value for block in function.body.blocks for binding in block.bindings)
    names = {operator_name(value) for value in bound if isinstance(value, relax.Call)}
    # For GPUs TVM scans in dozens of launches or in several functions; for CPUs by rows.
    scanned_for = tvm.target.Target("llvm") if names & _SCANS else target
    dispatch: Any = DispatchSortScan()
    passes = [
        relax.transform.LegalizeOps(),
        # Where it reads a number, fusing wants an operator that makes it.
        _NumbersAsOperators(),
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseTIR(),
    ]
    with _LEGALISING, target:
        try:
            # FuseTIR wants a function that is called.
            with scanned_for:
                module = dispatch(calling_module(primitive, "kernel"))
            module = tvm.transform.Sequential(passes)(module)
        except Exception as error:
            raise NoKernelError(_refusal(function, _reason(error))) from error
    found = [f for f in module.functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
    if len(found) != 1:
        raise NoKernelError(_refusal(function, f"it makes {len(found)} of it"))
    return found[0]


def _reason(error: Exception) -> str:
    return str(error).strip().split("\n")[-1].rpartition("is false: ")[2][:200]


def _refusal(function: Any, reason: str) -> str:
    return (
        f"there is no kernel for {_name(function)}, which TVM {tvm.__version__} does not lower "
        f"to one function ({reason}): write the model without it, or let TVM compile the scheduled "
        "module"
    )


def _name(function: Any) -> str:
    call = function.body.blocks[0].bindings[0].value
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
        # TVM 0.27 cannot write these as a constant: logarithms and powers of what it can.
        finite, function = (1e4, relax.op.exp) if value > 0 else (0.0, relax.op.log)
        finite = -1.0 if math.isnan(value) else finite
        made = relax.op.full((), relax.const(finite, dtype), dtype)
        return self.builder_.emit(function(self.builder_.emit(made)))


@tvm.transform.module_pass(opt_level=0, name="NumbersAsOperators")
class _NumbersAsOperators:
    """Constants of what is lowered already, which have no axes, as ``relax.full``."""

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        mutator = _NumberMutator(mod)
        for variable, function in mod.functions_items():
            if isinstance(function, relax.Function):
                mutator.builder_.update_func(variable, mutator.visit_expr(function))
        return mutator.builder_.finalize()


def default_schedule(function: Any) -> Any:
    """Run the outer spatial loops of every block in parallel; write numbers where they are read."""
    schedule = s_tir.Schedule(function.with_attr("global_symbol", "main"))
    root = schedule.get_sblock("root")
    made: Any = schedule.get(root)
    numbers = [buffer for buffer in made.alloc_buffers if not len(buffer.shape)]
    for block in schedule.get_child_blocks(root):
        known: Any = schedule.get(block)
        if not len(known.reads) and any(known.writes[0].source.same_as(b) for b in numbers):
            schedule.compute_inline(block)
    for block in schedule.get_child_blocks(root):
        loops: list[Any] = schedule.get_loops(block)
        realised: Any = schedule.get(block)
        iters = realised.iter_vars
        if not loops or len(loops) != len(iters):
            continue
        spatial = 0
        while spatial < len(iters) and int(iters[spatial].iter_type) == 0:
            spatial += 1
        outer = loops[: spatial - 1] if spatial == len(loops) > 1 else loops[:spatial]
        if outer:
            # Loops that someone scheduled already stay as they are.
            with suppress(s_tir.ScheduleError):
                schedule.parallel(schedule.fuse(*outer) if len(outer) > 1 else outer[0])
    return schedule.mod["main"]


def _plain(planner: Planner, value: Value) -> Stored:
    """The value as a whole buffer in the IR's layout."""
    stored = planner.stored(value)
    if planner.is_whole(stored):
        return stored
    target = planner.scratch(stored.shape, layout="plain")
    planner.copy(stored, target)
    return target


def leaves(expr: Any) -> list[Any]:
    """Variables and constants of a call, in order, repeated as they stand."""
    if isinstance(expr, relax.Call):
        return [leaf for arg in expr.args for leaf in leaves(arg)]
    if isinstance(expr, relax.Tuple):
        return [leaf for field in expr.fields for leaf in leaves(field)]
    return [expr] if isinstance(expr, (relax.Var, GenericConst)) else []


def replace_variables(expr: Any, by: dict[Any, Any]) -> Any:
    """An operator's call with other arguments."""
    if isinstance(expr, relax.Call):
        return relax.Call(
            expr.op, [replace_variables(a, by) for a in expr.args], expr.attrs, expr.ty_args
        )
    if isinstance(expr, relax.Tuple):
        return relax.Tuple([replace_variables(f, by) for f in expr.fields])
    return by.get(expr, expr) if isinstance(expr, relax.Var) else expr


def _outline(call: Any, arguments: list[Any]) -> Any:
    """The operator as a Relax function of its tensors."""
    builder = relax.BlockBuilder()
    params = [relax.Var(f"p{i}", a.ty) for i, a in enumerate(arguments)]
    with builder.function("kernel", params, private=True):
        with builder.dataflow():
            result = builder.emit(
                replace_variables(call, dict(zip(arguments, params, strict=True)))
            )
            result = builder.emit_output(result)
        builder.emit_func_output(result)
    return builder.finalize()["kernel"]
