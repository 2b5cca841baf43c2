"""A pass that wraps indices around, so that gathers and scatters stay within the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay

from relay_passes.relay.expressions import (
    Array,
    constant,
    constant_value,
    operator_name,
    rebuild,
    static_shape,
)


@tvm.transform.module_pass(opt_level=0, name="WrapIndices")
class WrapIndices:
    """A pass that takes indices of gathers and scatters modulo the extents that they index.

    TVM does not check indices: one out of range could crash the process or overwrite other memory.
    Only indices of ``take`` are clipped, unless its mode is fast.
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module with indices wrapped; called by :class:`tvm.transform.Pass`."""
        return rebuild(mod, _wrapped)


def _wrapped(old: Any, call: Any) -> relay.Call | None:
    """Return a gather or scatter with indices that wrap; None if the call needs no change."""
    if operator_name(old) == "take" and old.attrs.mode == "fast":
        axis = None if old.attrs.axis is None else int(old.attrs.axis)
        return relay.take(*call.args, axis, int(old.attrs.batch_dims), "wrap")
    extents = _indexed(old)
    if extents is None or _is_wrapped(old.args[1], extents):
        return None
    first, indices, *others = call.args
    numbers, fixed = extents.astype(old.args[1].checked_type.dtype), constant_value(indices)
    wrapped = (
        relay.floor_mod(indices, constant(numbers))
        if fixed is None
        else constant(np.mod(fixed, numbers))
    )
    return relay.Call(call.op, [first, wrapped, *others], call.attrs, call.type_args)


def _is_wrapped(indices: Any, extents: Array) -> bool:
    """Return whether indices are wrapped already, by an earlier run of this pass."""
    if operator_name(indices) != "floor_mod":
        return False
    divisors = constant_value(indices.args[1])
    return divisors is not None and np.array_equal(divisors, extents)


def _indexed(call: Any) -> Array | None:
    """Return the extent of the indexed axis, or of each axis as a column; None for other calls."""
    match operator_name(call):
        case "gather" | "scatter_elements":
            return np.asarray(static_shape(call.args[0])[int(call.attrs.axis)])
        case "gather_nd":
            first = int(call.attrs.batch_dims)
        case "scatter_nd":
            first = 0
        case _:
            return None
    axes, *others = static_shape(call.args[1])
    extents = np.asarray(static_shape(call.args[0])[first : first + axes])
    return extents.reshape(-1, *(1 for _ in others))
