"""Bring a Relax module into the form that scheduling reads: inference only, constants folded."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from relay_passes.dialect import DialectError
from relay_passes.relax.canonical.casts import without_casts
from relay_passes.relax.canonical.fold_batch_norm import FoldBatchNorm
from relay_passes.relax.canonical.fold_constants import FoldSmallConstants
from relay_passes.relax.canonical.fold_empty import FoldEmpty
from relay_passes.relax.canonical.one_row import OneRowImages
from relay_passes.relax.canonical.raise_clip import RaiseClip
from relay_passes.relax.canonical.raise_extreme import RaiseExtreme
from relay_passes.relax.canonical.raise_gather import RaiseGather
from relay_passes.relax.canonical.raise_pad import RaisePad
from relay_passes.relax.canonical.take_fields import TakeFields
from relay_passes.relax.canonical.wrap_indices import WrapIndices
from relay_passes.relax.expressions import (
    first_field,
    operator_name,
    rebuild,
    substitute,
)
from runtime_ext.ir_form import without_schedule
from runtime_ext.module_copies import with_functions


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
