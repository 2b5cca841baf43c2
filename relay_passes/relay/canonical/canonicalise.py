"""Bring a Relay module into the form that scheduling reads: inference only, constants folded."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay

from relay_passes.dialect import DialectError
from relay_passes.relay.canonical.fold_batch_norm import FoldBatchNorm
from relay_passes.relay.canonical.fold_constants import FoldSmallConstants
from relay_passes.relay.canonical.inline_calls import with_calls_inlined
from relay_passes.relay.canonical.wrap_indices import WrapIndices
from relay_passes.relay.expressions import operator_name, rebuild
from runtime_ext.ir_form import without_schedule
from runtime_ext.relay.module_copies import with_functions


def canonicalise(module: tvm.IRModule) -> tvm.IRModule:
    """Return the module with ``main`` ready for :func:`relay_passes.relay.extract.extract`.

    Equal operators are not merged, and functions that ``main`` calls are inlined, as in Relax.
    Raise DialectError if there is no ``main``, or it has control flow or dynamic shapes.
    """
    if not any(v.name_hint == "main" for v in module.get_global_vars()):
        raise DialectError("the module has no function 'main' to schedule")
    if not isinstance(module["main"], relay.Function):
        raise DialectError("'main' is not a Relay function: only those can be scheduled")
    module = with_functions(module, dict(module.functions.items()))
    graph_form = [relay.transform.InferType(), relay.transform.ToGraphNormalForm()]
    module = tvm.transform.Sequential(graph_form)(without_schedule(module))
    passes = [
        relay.transform.InferType(),
        FoldSmallConstants(),
        FoldBatchNorm(),
        relay.transform.SimplifyInference(),
        relay.transform.InferType(),
        FoldSmallConstants(),
        WrapIndices(),
        NarrowDoubles(),
    ]
    return tvm.transform.Sequential(passes)(with_calls_inlined(module))


@tvm.transform.module_pass(opt_level=0, name="NarrowDoubles")
class NarrowDoubles:
    """A pass that casts float64 to float32 before it is cast to float16, as ONNX Runtime does.

    LLVM calls a compiler-library function for the direct cast, and old and new versions of it
    return the result in different registers.
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module with casts inserted; called by :class:`tvm.transform.Pass`."""
        return rebuild(mod, _by_way_of_single)


def _by_way_of_single(old: Any, call: Any) -> relay.Call | None:
    if operator_name(old) != "cast" or old.attrs.dtype != "float16":
        return None
    if old.args[0].checked_type.dtype != "float64":
        return None
    return relay.cast(relay.cast(call.args[0], "float32"), "float16")
