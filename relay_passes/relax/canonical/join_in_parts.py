"""Concatenations of very many tensors, for each of which TVM's passes call themselves."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.expressions import operator_name, rebuild, substitute

_MOST = 64


@tvm.transform.module_pass(opt_level=0, name="JoinInParts")
class JoinInParts:
    """Rewrite a concatenation of more than 64 tensors as one of concatenations."""

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Rewrite; see :class:`tvm.transform.Pass`."""
        return rebuild(mod, "main", _emit, ["relax.concat"])


def _emit(builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]) -> Any:
    call = binding.value
    if operator_name(call) != "relax.concat" or not isinstance(call.args[0], relax.Tuple):
        return None
    parts = [substitute(field, new) for field in call.args[0].fields]
    if len(parts) <= _MOST:
        return None
    while len(parts) > 1:
        groups = [parts[at : at + _MOST] for at in range(0, len(parts), _MOST)]
        parts = [builder.emit(relax.op.concat(group, call.attrs.axis)) for group in groups]
    return parts[0]
