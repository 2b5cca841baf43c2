"""A pass that raises the two TIR functions that the ONNX importer writes for Clip to operators.

They become ``maximum`` and ``minimum`` and not ``relax.clip``, which compares in the other order:
TVM turns NaN into the bound that it is compared with first.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from relay_passes.relax.expressions import (
    constant_value,
    data_type,
    operator_name,
    rebuild,
    static_shape,
    substitute,
    uses_of,
)

_OPERATORS = {tirx.Max: relax.op.maximum, tirx.Min: relax.op.minimum}


@tvm.transform.module_pass(opt_level=0, name="RaiseClip")
class RaiseClip:
    """A pass that replaces TIR comparing all elements with a number by ``maximum`` or ``minimum``.

    The number may be computed. If it is known, and only a ``minimum`` reads such a ``maximum``, the
    two are emitted next to each other.
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module with Clip raised; called by :class:`tvm.transform.Pass`."""
        uses = uses_of(mod["main"])
        lower: dict[Any, Any] = {}

        def emit(
            builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]
        ) -> Any:
            value = substitute(binding.value, new)
            limit = None
            if operator_name(value) == "relax.call_tir":
                limit = _bound(mod[value.args[0]], list(value.args[1].fields), binding.var)
            if limit is None:
                return builder.emit(value)
            kind, bound = limit
            data = value.args[1].fields[0]
            if not isinstance(bound, int | float):
                return builder.emit(_OPERATORS[kind](data, bound))
            if math.isinf(bound):
                return data
            number = relax.const(bound, data_type(data))
            if kind is tirx.Max:
                larger = builder.emit(relax.op.maximum(data, number))
                if uses[binding.var] == 1:
                    lower[larger] = data, number
                return larger
            if data in lower:
                data = builder.emit(relax.op.maximum(*lower[data]))
            return builder.emit(relax.op.minimum(data, number))

        return rebuild(mod, "main", emit, ["relax.call_tir"])


def _bound(function: Any, arguments: list[Any], result: relax.Var) -> tuple[Any, Any] | None:
    """Return the class (Max or Min) and the bound of a TIR function that only clips, else None.

    The bound is a number, or the argument that holds it.
    """
    stores: list[Any] = []
    tvm_ffi.structural_walk(function.body, [(tirx.BufferStore, stores.append)])
    if len(stores) != 1 or not isinstance(stores[0].value, tirx.Max | tirx.Min):
        return None
    whole, data, bound = stores[0], stores[0].value.a, stores[0].value.b
    if not isinstance(data, tvm.ir.TensorLoad) or not data.source.same_as(function.params[0]):
        return None
    if static_shape(arguments[0]) != static_shape(result):
        return None
    if not all(map(lambda a, b: a.same_as(b), data.indices, whole.indices)):
        return None
    if len(arguments) == 2 and isinstance(bound, tvm.ir.TensorLoad):
        is_one = math.prod(static_shape(arguments[1])) == 1
        if not is_one or not bound.source.same_as(function.params[1]):
            return None
        number = constant_value(arguments[1])
        return type(whole.value), arguments[1] if number is None else number.item()
    if len(arguments) == 1 and isinstance(bound, tirx.FloatImm | tirx.IntImm):
        return type(whole.value), bound.value
    return None
