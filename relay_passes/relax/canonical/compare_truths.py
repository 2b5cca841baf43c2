"""Comparisons of truth values, which TVM compares as if they were floats."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.expressions import data_type, operator_name, rebuild, substitute

_COMPARISONS = frozenset(
    f"relax.{name}"
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
)


@tvm.transform.module_pass(opt_level=0, name="CompareTruths")
class CompareTruths:
    """Compare truth values as integers."""

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Rewrite; see :class:`tvm.transform.Pass`."""
        return rebuild(mod, "main", _emit, _COMPARISONS)


def _emit(builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]) -> Any:
    call = binding.value
    if operator_name(call) not in _COMPARISONS or data_type(call.args[0]) != "bool":
        return None
    operands = [
        builder.emit(relax.op.astype(substitute(argument, new), "uint8")) for argument in call.args
    ]
    return builder.emit(relax.Call(call.op, operands, call.attrs))
