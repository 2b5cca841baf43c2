"""Any operator that Relax legalises: TVM's own code, with a plain schedule."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm
import tvm_ffi
from tvm import relax, s_tir
from tvm.ir import GenericConst

from runtime_ext.kernels.draft import PLAIN, Draft
from runtime_ext.kernels.phases import Phases, split_phases
from runtime_ext.kernels.relax_function import calling_module, operator_name, tensor_types
from runtime_ext.kernels.values import Stored, Value

if TYPE_CHECKING:
    from runtime_ext.kernels.planner import Planner

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
        """The operator's."""
        return operator_name(self.function.body.blocks[0].bindings[0].value)

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
    arguments = [a for a in _leaves(call) if not isinstance(a, GenericConst)]
    arguments = list(dict.fromkeys(arguments))
    opaque(planner, var, arguments, lambda shapes: Generic(_outline(call, arguments), shapes))


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


def lower_generic(spec: Generic | Scheduled, target: Any) -> Phases:
    """Legalise, fuse into one PrimFunc, schedule, and split into phases, as far as needed."""
    if isinstance(spec, Scheduled):
        return split_phases(spec.function)
    return split_phases(default_schedule(prim_func(spec.function, target)))


def prim_func(function: Any, target: Any) -> Any:
    """The PrimFunc that TVM's legalisation and fusion make of a Relax function."""
    primitive = function.with_attr("Primitive", True)
    with _LEGALISING, target:
        # FuseTIR wants a function that is called.
        module = calling_module(primitive, "kernel")
        module = tvm.transform.Sequential(
            [
                relax.transform.LegalizeOps(),
                relax.transform.AnnotateTIROpPattern(),
                relax.transform.FuseTIR(),
            ]
        )(module)
    found = [f for f in module.functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
    if len(found) != 1:
        raise ValueError(
            f"TVM made {len(found)} functions of one operator; legalise it before it becomes a unit"
        )
    return found[0]


def default_schedule(function: Any) -> Any:
    """Run the outer spatial loops of every block in parallel."""
    schedule = s_tir.Schedule(function.with_attr("global_symbol", "main"))
    root = schedule.get_sblock("root")
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


def _leaves(expr: Any) -> list[Any]:
    if isinstance(expr, relax.Call):
        return [leaf for arg in expr.args for leaf in _leaves(arg)]
    if isinstance(expr, relax.Tuple):
        return [leaf for field in expr.fields for leaf in _leaves(field)]
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
