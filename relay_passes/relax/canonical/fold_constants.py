"""Constant folding in NumPy, for the arithmetic that importers and batch norms leave behind.

``shape_of`` a static shape is folded as well. TVM's own ``FoldConstant`` compiles and runs a kernel
for every fold, 16 s for ResNet-50; the operators here cover what remains of real models, and
anything else is left to TVM's pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from relay_passes.relax.expressions import (
    Array,
    constant,
    constant_value,
    operator_name,
    rebuild,
    static_shape,
    substitute,
)
from relay_passes.relax.operators import tuple_ints

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
    "relax.less": np.less,
    "relax.where": np.where,
}


@tvm.transform.module_pass(opt_level=0, name="FoldSmallConstants")
class FoldSmallConstants:
    """A pass that evaluates operators of constants in ``main`` with NumPy."""

    def transform_module(self, mod: tvm.IRModule, ctx: Any) -> tvm.IRModule:
        """Return the module with constants folded; called by :class:`tvm.transform.Pass`."""
        return rebuild(mod, "main", _emit)


def _emit(
    builder: relax.BlockBuilder, binding: relax.VarBinding, new: dict[Any, Any]
) -> relax.Var | GenericConst | relax.ShapeExpr:
    value = substitute(binding.value, new)
    if isinstance(value, GenericConst | relax.Var | relax.ShapeExpr):
        return value
    if operator_name(value) == "relax.shape_of" and _is_static(value.args[0]):
        return relax.ShapeExpr(static_shape(value.args[0]))
    folded = _fold(value, binding)
    return builder.emit(value) if folded is None else constant(folded)


def _is_static(tensor: Any) -> bool:
    shape = tensor.ty.shape
    return shape is not None and all(isinstance(extent, tvm.tirx.IntImm) for extent in shape)


def _fold(value: Any, binding: relax.VarBinding) -> Array | None:
    if not isinstance(value, relax.Call):
        return None
    name = operator_name(value)
    if name in _ELEMENTWISE:
        arrays = [constant_value(argument) for argument in value.args]
        if any(array is None for array in arrays):
            return None
        return np.asarray(_ELEMENTWISE[name](*arrays), dtype=str(binding.var.ty.dtype))
    if name == "relax.shape_to_tensor" and isinstance(value.args[0], relax.ShapeExpr):
        return np.array([int(extent) for extent in value.args[0].values], "int64")
    if name == "relax.concat" and isinstance(value.args[0], relax.Tuple):
        parts = [constant_value(field) for field in value.args[0].fields]
        if value.attrs.axis is None or any(part is None for part in parts):
            return None
        return np.concatenate([part for part in parts if part is not None], int(value.attrs.axis))
    if name in _CREATING:
        return _CREATING[name](value, static_shape(binding.var), str(binding.var.ty.dtype))
    data = constant_value(value.args[0]) if value.args else None
    return None if data is None else _moved(name, data, value, binding)


def _full(value: Any, shape: tuple[int, ...], dtype: str) -> Array | None:
    fill = constant_value(value.args[1])
    return None if fill is None else np.full(shape, fill, dtype)


def _arange(value: Any, shape: tuple[int, ...], dtype: str) -> Array | None:
    numbers = [constant_value(argument) for argument in value.args]
    if any(number is None for number in numbers):
        return None
    start, _, step = (number.item() for number in numbers if number is not None)
    return (start + step * np.arange(*shape)).astype(dtype)


_CREATING: dict[str, Callable[[Any, tuple[int, ...], str], Array | None]] = {
    "relax.zeros": lambda _, shape, dtype: np.zeros(shape, dtype),
    "relax.zeros_like": lambda _, shape, dtype: np.zeros(shape, dtype),
    "relax.ones": lambda _, shape, dtype: np.ones(shape, dtype),
    "relax.ones_like": lambda _, shape, dtype: np.ones(shape, dtype),
    "relax.full": _full,
    "relax.full_like": _full,
    "relax.arange": _arange,
}


def _moved(name: str, data: Array, value: Any, binding: relax.VarBinding) -> Array | None:
    """Return a constant after an operator that moves or casts elements, or None for others."""
    match name:
        case "relax.reshape" | "relax.expand_dims" | "relax.squeeze":
            return data.reshape(static_shape(binding.var))
        case "relax.broadcast_to":
            return np.broadcast_to(data, static_shape(binding.var))
        case "relax.permute_dims":
            axes = value.attrs.axes
            return np.transpose(data, None if axes is None else [int(axis) for axis in axes])
        case "relax.astype":
            return data.astype(str(binding.var.ty.dtype))
        case "relax.take":
            rows, axis = constant_value(value.args[1]), value.attrs.axis
            if rows is None or axis is None:
                return None
            # The result of out-of-bounds indices is left to TVM.
            extent = data.shape[int(axis)]
            lowest = -extent if str(value.attrs.mode) == "wrap" else 0
            inside = np.all((rows >= lowest) & (rows < extent))
            return np.take(data, rows, int(axis)) if inside else None
        case "relax.strided_slice":
            axes, begins, ends, *steps = (tuple_ints(argument) for argument in value.args[1:])
            steps = steps[0] if steps else (1,) * len(axes)
            if min(steps, default=1) < 1:
                return None
            cut = [slice(None)] * data.ndim
            for axis, *bounds in zip(axes, begins, ends, steps, strict=True):
                cut[axis] = slice(*bounds)
            return data[tuple(cut)]
        case _:
            return None
