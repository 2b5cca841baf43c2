"""The ONNX importer guards a Gather against negative indices: one ``relax.take`` does the same."""

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
    """Rewrite ``take(x, where(i < 0, i + extent, i))`` to a take whose indices wrap around.

    Indices that need no guard wrap around, too: TVM would read what lies beyond the data.
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Raise; see :class:`tvm.transform.Pass`."""
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
    """Indices before the importer guarded them against negative ones; None if it did not.

    Parameters
    ----------
    indices
        A leaf.
    extents
        The extent of the axis that is indexed, or of each.
    defined
        The expression that each variable is bound to.
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
