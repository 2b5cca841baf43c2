"""A pass that removes the ONNX importer's guard of Gather against negative indices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_passes.relax.expressions import (
    bindings_of,
    constant_value,
    operator_name,
    rebuild,
    static_shape,
    substitute,
)


@tvm.transform.module_pass(opt_level=0, name="RaiseGather")
class RaiseGather:
    """A pass that replaces ``take(x, where(i < 0, i + extent, i))`` by a take with mode wrap.

    Takes of mode fast, which read out of bounds, get mode wrap as well.
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module with takes that wrap; called by :class:`tvm.transform.Pass`."""
        defined = {binding.var: binding.value for binding in bindings_of(mod["main"])}

        def emit(
            builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]
        ) -> Any:
            value = binding.value
            if operator_name(value) != "relax.take" or value.attrs.axis is None:
                return None
            extent = static_shape(value.args[0])[int(value.attrs.axis)]
            indices = unguarded(value.args[1], extent, defined)
            mode = str(value.attrs.mode) if indices is None else "wrap"
            data, indices = (
                substitute(leaf, new)
                for leaf in (value.args[0], value.args[1] if indices is None else indices)
            )
            mode = "wrap" if mode == "fast" else mode
            return builder.emit(relax.op.take(data, indices, int(value.attrs.axis), mode=mode))

        return rebuild(mod, "main", emit, ["relax.take"])


def unguarded(indices: Any, extents: Any, defined: Mapping[Any, Any]) -> Any:
    """Return the indices as they were before the importer's guard against negative ones, or None.

    ``extents`` are the extent of the indexed axis, or of each; ``defined`` maps each variable to
    its expression.
    """
    choice = defined.get(indices)
    if operator_name(choice) != "relax.where":
        return None
    negative, moved = (defined.get(leaf) for leaf in choice.args[:2])
    original = choice.args[2]
    guarded = (
        operator_name(negative) == "relax.less"
        and operator_name(moved) == "relax.add"
        and negative.args[0].same_as(original)
        and moved.args[0].same_as(original)
        and _is(negative.args[1], 0)
        and _is(moved.args[1], extents)
    )
    return original if guarded else None


def _is(leaf: Any, numbers: Any) -> bool:
    value = constant_value(leaf)
    return value is not None and value.size == np.size(numbers) and bool(np.all(value == numbers))
