"""A pass that binds every field of an operator's tuple result, in order, used or not."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.expressions import bindings_of, rebuild, substitute


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
