"""Arithmetic of truth values, with which TVM computes as if they were floats."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.expressions import data_type, operator_name, rebuild, substitute

_COMPARISONS = frozenset(
    f"relax.{name}"
    for name in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
)
#: What arithmetic of truth values is, as torch writes it.
_LOGIC = {
    "relax.add": relax.op.logical_or,
    "relax.maximum": relax.op.logical_or,
    "relax.minimum": relax.op.logical_and,
    "relax.multiply": relax.op.logical_and,
}


@tvm.transform.module_pass(opt_level=0, name="LogicOfTruths")
class LogicOfTruths:
    """Compare truth values as integers, and add and multiply them as logic does."""

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Rewrite; see :class:`tvm.transform.Pass`."""
        return rebuild(mod, "main", _emit, _COMPARISONS | set(_LOGIC))


def _emit(builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]) -> Any:
    call, name = binding.value, operator_name(binding.value)
    if (name not in _COMPARISONS and name not in _LOGIC) or data_type(call.args[0]) != "bool":
        return None
    operands = [substitute(argument, new) for argument in call.args]
    if name in _LOGIC:
        return builder.emit(_LOGIC[name](*operands))
    operands = [builder.emit(relax.op.astype(operand, "uint8")) for operand in operands]
    return builder.emit(relax.Call(call.op, operands, call.attrs))
