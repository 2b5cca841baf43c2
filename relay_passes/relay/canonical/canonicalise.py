"""Bring a Relay module into the form that scheduling reads: inference only, constants folded."""

from __future__ import annotations

import tvm
from tvm import relay

from relay_passes.dialect import DialectError
from relay_passes.relay.canonical.fold_batch_norm import FoldBatchNorm
from relay_passes.relay.canonical.fold_constants import FoldSmallConstants
from relay_passes.relay.canonical.inline_calls import with_calls_inlined
from relay_passes.relay.canonical.narrow_doubles import NarrowDoubles
from relay_passes.relay.canonical.wrap_indices import WrapIndices
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
