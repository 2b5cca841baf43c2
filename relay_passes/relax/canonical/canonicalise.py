"""Bring a Relax module into the form that scheduling reads: inference only, constants folded."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from relay_passes.dialect import DialectError
from relay_passes.relax.canonical.fold_batch_norm import FoldBatchNorm
from relay_passes.relax.canonical.fold_constants import FoldSmallConstants
from relay_passes.relax.canonical.fold_empty import FoldEmpty
from relay_passes.relax.canonical.one_row import OneRowImages
from relay_passes.relax.canonical.raise_clip import RaiseClip
from relay_passes.relax.canonical.raise_extreme import RaiseExtreme
from relay_passes.relax.canonical.raise_gather import RaiseGather
from relay_passes.relax.canonical.raise_pad import RaisePad
from relay_passes.relax.canonical.wrap_indices import WrapIndices
from relay_passes.relax.expressions import (
    bindings_of,
    first_field,
    operator_name,
    rebuild,
    substitute,
)
from runtime_ext.allocated import empty_constant, is_allocation
from runtime_ext.ir_form import without_schedule
from runtime_ext.module_copies import with_functions, with_main


def canonicalise(module: tvm.IRModule) -> tvm.IRModule:
    """Return the module with ``main`` ready for :func:`relay_passes.relax.extract.extract`.

    Equal operators are not merged: published counts of NASNet include its two equal pools.
    Functions that ``main`` calls are inlined, fused ones too. Raise DialectError if there is no
    ``main``, or it has control flow or dynamic shapes.
    """
    if not any(v.name_hint == "main" for v in module.get_global_vars()):
        raise DialectError("the module has no function 'main' to schedule")
    if not isinstance(module["main"], relax.Function):
        raise DialectError("'main' is not a Relax function: only those can be scheduled")
    for parameter in module["main"].params:
        if any(isinstance(e, tvm.ir.Var) for e in getattr(parameter.ty, "shape", None) or ()):
            raise DialectError(
                f"input {parameter.name!r} is {parameter.ty}, with dynamic dimensions: bind them "
                "by relax.transform.BindSymbolicVars, or compile the ONNX model for a range of "
                "shapes by tvm_ios.api.optimize_range"
            )
    module = without_schedule(module)
    passes = [
        relax.transform.Normalize(),
        FoldEmpty(),
        FoldSmallConstants(),
        OneRowImages(),
        FoldBatchNorm(),
        relax.transform.DecomposeOpsForInference("main"),
        RemoveDropout(),
        RaisePad(),
        RaiseClip(),
        RaiseExtreme(),
        RaiseGather(),
        WrapIndices(),
        FoldSmallConstants(),
        relax.transform.CanonicalizeBindings(),
        relax.transform.DeadCodeElimination(),
        TakeFields(),
        relax.transform.CanonicalizeBindings(),
    ]
    return tvm.transform.Sequential(passes)(without_casts(_with_calls_inlined(module)))


def _with_calls_inlined(module: tvm.IRModule) -> tvm.IRModule:
    """Inline the functions that ``main`` calls, except those for another code generator."""
    main = module.get_global_var("main")
    others = {
        variable: function
        for variable, function in module.functions_items()
        if isinstance(function, relax.Function) and variable != main
    }
    inlined = {v: f for v, f in others.items() if not (f.attrs and "Codegen" in f.attrs)}
    if not inlined:
        return module
    try:
        whole = module[main].inline_functions(inlined)
    except tvm.error.InternalError as error:
        raise DialectError("main calls a function that calls itself: unroll it") from error
    return with_functions(module, {**dict(module.functions_items()), main: whole})


@tvm.transform.module_pass(opt_level=0, name="RemoveDropout")
class RemoveDropout:
    """A pass that replaces dropout by its input, as DecomposeOpsForInference does not."""

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module without dropout; called by :class:`tvm.transform.Pass`."""
        inputs: dict[Any, Any] = {}

        def emit(
            builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]
        ) -> Any:
            value = binding.value
            if operator_name(value) == "relax.nn.dropout":
                inputs[binding.var] = substitute(value.args[0], new)
            return first_field(value, inputs)

        return rebuild(mod, "main", emit, ["relax.nn.dropout"])


@tvm.transform.module_pass(opt_level=0, name="TakeFields")
class TakeFields:
    """A pass that takes every field of an operator's tuple result once, right after the operator.

    The graph then shows which parts of a split are read, as a graph of ONNX does.
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module with all fields taken; called by :class:`tvm.transform.Pass`."""
        fields: dict[Any, list[relax.Var]] = {}

        def emit(
            builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]
        ) -> Any:
            value = binding.value
            if isinstance(value, relax.TupleGetItem) and value.tuple_value in fields:
                return fields[value.tuple_value][value.index]
            result = builder.emit(substitute(value, new))
            if _returns_tuple(binding):
                fields[binding.var] = [
                    builder.emit(relax.TupleGetItem(result, place))
                    for place in range(len(binding.var.ty.fields))
                ]
            return result

        changes = any(map(_returns_tuple, bindings_of(mod["main"])))
        return rebuild(mod, "main", emit) if changes else mod


def _returns_tuple(binding: relax.VarBinding) -> bool:
    return isinstance(binding.value, relax.Call) and isinstance(binding.var.ty, relax.TupleType)


#: Prefixes of operators that TVM inserts when it lowers a module for the virtual machine.
_LOWERED = ("relax.vm.", "relax.memory.", "relax.builtin.", "relax.null_value")


def without_casts(module: tvm.IRModule) -> tvm.IRModule:
    """Remove casts (``match_cast``) to a known shape from ``main``.

    Raise DialectError for any other cast, or if the module is lowered for the virtual machine.
    """
    main = module["main"]
    if not isinstance(main.body, relax.SeqExpr):
        return module
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    for binding in bindings:
        name = operator_name(binding.value)
        if name.startswith(_LOWERED) and not is_allocation(binding.value):
            raise DialectError(
                f"main is lowered for TVM's virtual machine already ({name}): schedule the module "
                "from before that"
            )
    if not any(isinstance(b, relax.MatchCast) or is_allocation(b.value) for b in bindings):
        return module
    blocks = [type(block)(list(map(_plain, block.bindings))) for block in main.body.blocks]
    body = relax.SeqExpr(blocks, main.body.body)
    plain = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    return with_main(module, plain)


def _plain(binding: relax.Binding) -> relax.Binding:
    if is_allocation(binding.value):
        return relax.VarBinding(binding.var, empty_constant(binding.value))
    if not isinstance(binding, relax.MatchCast):
        return binding
    known, wanted = _described(binding.value.ty), _described(binding.ty)
    if known is None or known != wanted:
        raise DialectError(
            f"main casts {binding.var.name!r} to {binding.ty} (match_cast), of which the shape is "
            "known only when it runs: fix the shapes"
        )
    return relax.VarBinding(binding.var, binding.value)


def _described(kind: Any) -> tuple[tuple[int, ...], str] | None:
    """Return the shape and type of a tensor, or None if its shape is not static."""
    extents = kind.shape if isinstance(kind, relax.TensorType) else None
    if extents is None or not all(isinstance(extent, tvm.tirx.IntImm) for extent in extents):
        return None
    return tuple(map(int, extents)), str(kind.dtype)
