"""A pass that makes tensors without elements constants, as :mod:`tvm_ios.onnx.rewrites.empty`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from relay_passes.relax.expressions import (
    bindings_of,
    constant,
    leaves,
    operator_name,
    rebuild,
    static_shape,
    substitute,
)

#: The value of each reduction of no elements; for integers and Booleans only 0 and 1 are used.
_IDENTITIES = {
    "relax.matmul": 0.0,
    "relax.max": -math.inf,
    "relax.mean": math.nan,
    "relax.min": math.inf,
    "relax.prod": 1.0,
    "relax.sum": 0.0,
}


@tvm.transform.module_pass(opt_level=0, name="FoldEmpty")
class FoldEmpty:
    """A pass that replaces tensors without elements in ``main`` by constants.

    Results that depend on such tensors alone (a sum, say) become constants as well.
    """

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module with empty tensors folded; called by :class:`tvm.transform.Pass`."""
        main = mod["main"]
        variables = (*main.params, *(binding.var for binding in bindings_of(main)))
        return rebuild(mod, "main", _emit) if any(map(_is_empty, variables)) else mod


def _emit(
    builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]
) -> relax.Var | GenericConst:
    value, variable = substitute(binding.value, new), binding.var
    if _is_empty(variable):
        return _full(variable, 0)
    value = substitute(value, {leaf: _full(leaf, 0) for leaf in leaves(value) if _is_empty(leaf)})
    name = operator_name(value)
    if name == "relax.concat" and isinstance(value.args[0], relax.Tuple):
        kept = [field for field in value.args[0].fields if not _is_empty(field)]
        if len(kept) < len(value.args[0].fields):
            return builder.emit(relax.op.concat(kept, value.attrs.axis))
    if name in _IDENTITIES and _is_empty(value.args[0]):
        identity = _IDENTITIES[name]
        if identity in (0, 1) or str(variable.ty.dtype).startswith("float"):
            return _full(variable, identity)
    return builder.emit(value)


def _is_empty(leaf: Any) -> bool:
    kind = leaf.ty
    if not isinstance(kind, relax.TensorType) or kind.shape is None:
        return False
    return any(isinstance(extent, tvm.tirx.IntImm) and extent == 0 for extent in kind.shape)


def _full(leaf: Any, number: float) -> GenericConst:
    return constant(np.full(static_shape(leaf), number, str(leaf.ty.dtype)))
