"""Doubles become half precision by way of single precision."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay

from relay_passes.relay.expressions import operator_name, rebuild


@tvm.transform.module_pass(opt_level=0, name="NarrowDoubles")
class NarrowDoubles:
    """Cast float64 to float32 before it is cast to float16, as ONNX Runtime does.

    LLVM has a function of the compiler's library do it at once, and of older ones it takes the
    result from another register than that of newer compilers.
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Insert casts; see :class:`tvm.transform.Pass`."""
        return rebuild(mod, _by_way_of_single)


def _by_way_of_single(old: Any, call: Any) -> relay.Call | None:
    if operator_name(old) != "cast" or old.attrs.dtype != "float16":
        return None
    if old.args[0].checked_type.dtype != "float64":
        return None
    return relay.cast(relay.cast(call.args[0], "float32"), "float16")
