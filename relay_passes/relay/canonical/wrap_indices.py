"""Indices that a model is given wrap around, so that none is read or written beyond the data."""

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
    """Take indices of gathers and scatters modulo the extents that they index.

    TVM trusts them: one out of range would end the process or change what lies beside the data.
    Those of ``take`` it clips unless told not to.
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Wrap; see :class:`tvm.transform.Pass`."""
        return rebuild(mod, _wrapped)


def _wrapped(old: Any, call: Any) -> relay.Call | None:
    """A call of a gather or a scatter whose indices wrap; None for what needs nothing."""
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
    """Whether this has been done: modules are brought into canonical form more than once."""
    if operator_name(indices) != "floor_mod":
        return False
    divisors = constant_value(indices.args[1])
    return divisors is not None and np.array_equal(divisors, extents)


def _indexed(call: Any) -> Array | None:
    """The extent of the axis that a call's indices are of, or of each along their first axis."""
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
