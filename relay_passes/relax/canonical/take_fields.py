"""All fields of an operator that returns several tensors are taken, in their order, used or not."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from relay_passes.relax.expressions import bindings_of, rebuild, substitute


@tvm.transform.module_pass(opt_level=0, name="TakeFields")
class TakeFields:
    """Take every field of every tuple that an operator returns, once and right after it.

    Which parts of a split are read must show in the graph, as it does in one of ONNX.
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Take; see :class:`tvm.transform.Pass`."""
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
