"""The ONNX importer emits Clip as two TIR functions: raise them to ``relax.clip`` again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from relay_passes.relax.bindings import (
    data_type,
    operator_name,
    rebuild,
    static_shape,
    substitute,
)
from relay_passes.relax.fold_constants import constant_value


@tvm.transform.module_pass(opt_level=0, name="RaiseClip")
class RaiseClip:
    """Rewrite ``minimum(maximum(x, low), high)`` of known bounds, or one of the two, to a clip."""

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Raise; see :class:`tvm.transform.Pass`."""
        lower: dict[Any, tuple[Any, float]] = {}

        def emit(
            builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]
        ) -> Any:
            value = substitute(binding.value, new)
            found = None
            if operator_name(value) == "relax.call_tir":
                found = _bound(mod[value.args[0]], list(value.args[1].fields), binding.var)
            if operator_name(value) == "relax.clip":
                return builder.emit(_clip(value.args[0], *(b.value for b in value.args[1:])))
            if found is None:
                return builder.emit(value)
            kind, bound = found
            data = value.args[1].fields[0]
            if kind is tirx.Max:
                made = builder.emit(_clip(data, bound, math.inf))
                lower[made] = data, bound
                return made
            inner, low = lower.get(data, (data, -math.inf))
            # With its bounds exchanged relax.clip gives the lower one, and this the upper one.
            if low > bound:
                inner, low = data, -math.inf
            return builder.emit(_clip(inner, low, bound))

        return rebuild(mod, "main", emit)


def _clip(data: Any, low: float, high: float) -> Any:
    """A clip whose bounds are numbers of the data's type: the largest where there is none."""
    # NumPy has no bfloat16; its exponents are float32's.
    dtype = np.dtype(data_type(data).replace("bfloat16", "float32"))
    if dtype.kind == "f":
        most = float(np.finfo(dtype).max)
        return relax.op.clip(data, max(low, -most), min(high, most))
    known = np.iinfo(dtype)
    return relax.op.clip(data, int(max(low, known.min)), int(min(high, known.max)))


def _bound(function: Any, arguments: list[Any], result: relax.Var) -> tuple[Any, float] | None:
    """The class of the node (maximum or minimum) and the bound, if the function does only that."""
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
        known = constant_value(arguments[1])
        if known is None or known.size != 1:
            return None
        return type(whole.value), known.item()
    if len(arguments) == 1 and isinstance(bound, tirx.FloatImm | tirx.IntImm):
        return type(whole.value), bound.value
    return None
