"""A pass that wraps indices around, so that gathers and scatters stay within the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_passes.relax.canonical.raise_gather import unguarded
from relay_passes.relax.expressions import (
    bindings_of,
    constant,
    constant_value,
    data_type,
    operator_name,
    rebuild,
    static_shape,
    substitute,
)
from tvm_ios.files.array_files import Array

#: Operators that index one axis, and several leading ones.
_OF_AN_AXIS = ("relax.gather_elements", "relax.scatter_elements")
_OF_LEADING_AXES = ("relax.gather_nd", "relax.scatter_nd")


@tvm.transform.module_pass(opt_level=0, name="WrapIndices")
class WrapIndices:
    """A pass that takes indices of gathers and scatters modulo the extents that they index.

    TVM does not check indices: one out of range could crash the process or overwrite other memory.
    Negative indices get the meaning that they have in ONNX and torch.
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module with indices wrapped; called by :class:`tvm.transform.Pass`."""
        defined = {binding.var: binding.value for binding in bindings_of(mod["main"])}

        def emit(
            builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]
        ) -> Any:
            value = binding.value
            extents = _indexed(value)
            if extents is None or _wrapped(defined.get(value.args[1]), extents):
                return None
            indices = unguarded(value.args[1], extents, defined)
            indices = value.args[1] if indices is None else indices
            numbers, fixed = extents.astype(data_type(indices)), constant_value(indices)
            wrapped = (
                builder.emit(relax.op.floor_mod(substitute(indices, new), constant(numbers)))
                if fixed is None
                else constant(np.mod(fixed, numbers))
            )
            first, _, *others = (substitute(argument, new) for argument in value.args)
            return builder.emit(
                relax.Call(value.op, [first, wrapped, *others], value.attrs, value.ty_args)
            )

        return rebuild(mod, "main", emit, (*_OF_AN_AXIS, *_OF_LEADING_AXES))


def _wrapped(indices: Any, extents: Any) -> bool:
    """Return whether indices are wrapped already, by an earlier run of this pass."""
    if operator_name(indices) != "relax.floor_mod":
        return False
    divisors = constant_value(indices.args[1])
    return divisors is not None and np.array_equal(divisors, extents)


def _indexed(value: Any) -> Array | None:
    """Return the extent of the axis, or of each axis, that a call indexes; None for other calls."""
    name = operator_name(value)
    if name in _OF_AN_AXIS:
        return np.asarray(static_shape(value.args[0])[int(value.attrs.axis)])
    if name not in _OF_LEADING_AXES:
        return None
    first = int(value.attrs.batch_dims) if name == "relax.gather_nd" else 0
    axes = static_shape(value.args[1])[-1]
    return np.asarray(static_shape(value.args[0])[first : first + axes])
