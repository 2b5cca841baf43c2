"""A pass that casts float64 to float16 by way of float32."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay

from relay_passes.relay.expressions import operator_name, rebuild


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
