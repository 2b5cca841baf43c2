"""A pass that raises Max and Min, imported from ONNX as a reduction of a stack, to operators."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_passes.relax.expressions import (
    bindings_of,
    constant_value,
    data_type,
    operator_name,
    rebuild,
)

_BINARY = {"relax.max": relax.op.maximum, "relax.min": relax.op.minimum}


@tvm.transform.module_pass(opt_level=0, name="RaiseExtreme")
class RaiseExtreme:
    """A pass that replaces a maximum (minimum) along the axis of a stack by element-wise ones.

    This saves two copies of each tensor, to the common shape and into the stack. Constants that the
    importer has broadcast get back the smallest shape that broadcasts to it.
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module with Max and Min raised; called by :class:`tvm.transform.Pass`."""
        values = {b.var: b.value for b in bindings_of(mod["main"])}

        def emit(
            builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]
        ) -> Any:
            call = binding.value
            terms = _stacked(call, values)
            if terms is None:
                return None
            binary = _BINARY[operator_name(call)]
            terms = [new.get(term, term) for term in terms]
            return reduce(lambda a, b: builder.emit(binary(a, b)), terms)

        return rebuild(mod, "main", emit, _BINARY)


def _stacked(call: Any, values: dict[Any, Any]) -> list[Any] | None:
    """Return the tensors whose element-wise extreme a call is, before broadcasting, or None."""
    if operator_name(call) not in _BINARY:
        return None
    stack = values.get(call.args[0])
    if operator_name(stack) != "relax.stack" or int(stack.attrs.axis) != 0:
        return None
    axes = call.attrs.axis
    if axes is None or [int(axis) for axis in axes] != [0] or call.attrs.keepdims:
        return None
    fields = stack.args[0]
    fields = values.get(fields, fields)
    if not isinstance(fields, relax.Tuple) or len(fields.fields) < 2:
        return None
    return [_before_broadcast(field, values) for field in fields.fields]


def _before_broadcast(term: Any, values: dict[Any, Any]) -> Any:
    array = constant_value(term)
    if array is None:
        value = values.get(term)
        return value.args[0] if operator_name(value) == "relax.broadcast_to" else term
    for axis in range(array.ndim):
        first = array.take([0], axis)
        if np.array_equal(array, np.broadcast_to(first, array.shape)):
            array = first
    leading = next((axis for axis, extent in enumerate(array.shape) if extent > 1), array.ndim)
    return relax.const(array.reshape(array.shape[leading:]), data_type(term))
