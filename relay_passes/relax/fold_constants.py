"""Constant folding in NumPy, for the arithmetic that importers and batch norms leave behind.

TVM's own ``FoldConstant`` compiles and runs a kernel for every fold, 16 s for ResNet-50; the
operators here cover what remains of real models, and anything else is left to TVM's pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from relay_passes.relax.bindings import operator_name, rebuild, static_shape, substitute

Array = np.ndarray[Any, Any]

_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "relax.add": np.add,
    "relax.subtract": np.subtract,
    "relax.multiply": np.multiply,
    "relax.divide": np.divide,
    "relax.maximum": np.maximum,
    "relax.minimum": np.minimum,
    "relax.sqrt": np.sqrt,
    "relax.negative": np.negative,
    "relax.isnan": np.isnan,
    "relax.where": np.where,
}


def constant(array: Array) -> GenericConst:
    """A Relax constant that holds the array."""
    return relax.const(tvm.runtime.tensor(np.ascontiguousarray(array)))


def constant_value(expression: Any) -> Array | None:
    """The array of a constant; None for anything else."""
    if isinstance(expression, GenericConst):
        return expression.value.numpy()
    if isinstance(expression, tvm.tirx.FloatImm | tvm.tirx.IntImm):
        return np.asarray(expression.value, dtype=str(expression.ty.dtype))
    return None


@tvm.transform.module_pass(opt_level=0, name="FoldSmallConstants")
class FoldSmallConstants:
    """Evaluate operators of constants in ``main`` without compiling anything."""

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Fold; see :class:`tvm.transform.Pass`."""
        return rebuild(mod, "main", _emit)


def _emit(
    builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]
) -> relax.Var | GenericConst:
    value = substitute(binding.value, new)
    if isinstance(value, GenericConst | relax.Var):
        return value
    folded = _fold(value, binding)
    return builder.emit(value) if folded is None else constant(folded)


def _fold(value: Any, binding: relax.VarBinding) -> Array | None:
    if not isinstance(value, relax.Call):
        return None
    name = operator_name(value)
    if name in _ELEMENTWISE:
        arrays = [constant_value(argument) for argument in value.args]
        if any(array is None for array in arrays):
            return None
        return np.asarray(_ELEMENTWISE[name](*arrays), dtype=str(binding.var.ty.dtype))
    if name in ("relax.reshape", "relax.expand_dims", "relax.squeeze", "relax.broadcast_to"):
        array = constant_value(value.args[0])
        if array is None:
            return None
        shape = static_shape(binding.var)
        return np.broadcast_to(array, shape) if name.endswith("to") else array.reshape(shape)
    if name == "relax.permute_dims":
        array = constant_value(value.args[0])
        if array is None:
            return None
        axes = value.attrs.axes
        return np.transpose(array, None if axes is None else [int(axis) for axis in axes])
    return None
