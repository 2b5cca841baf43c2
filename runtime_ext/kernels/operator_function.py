"""A Relax operator as a function of its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax
from tvm.ir import GenericConst

from runtime_ext.kernels.function_builder import FunctionBuilder
from runtime_ext.kernels.open_shapes import relax_extent
from runtime_ext.kernels.relax_function import with_attributes

#: Operators that sum products, and whose result's type can be chosen.
_PRODUCTS = frozenset(
    {
        "relax.matmul",
        *(f"relax.nn.conv{rank}d{way}" for rank in (1, 2, 3) for way in ("", "_transpose")),
    }
)
#: Other operators that sum, whose result has the type of their operand.
_SUMS = frozenset(
    {
        *(f"relax.{name}" for name in ("mean", "std", "sum", "variance")),
        *(f"relax.nn.{name}" for name in ("softmax", "log_softmax")),
        *(f"relax.nn.{name}_norm" for name in ("group", "instance", "layer", "rms")),
        *(f"relax.nn.avg_pool{rank}d" for rank in (1, 2, 3)),
    }
)


def outlined(call: Any, arguments: list[Any]) -> Any:
    """Return a Relax function that calls the operator with its arguments as parameters."""
    builder = FunctionBuilder()
    params = [relax.Var(f"p{i}", a.ty) for i, a in enumerate(arguments)]
    with builder.function("kernel", params, private=True):
        with builder.dataflow():
            replaced = replace_variables(call, dict(zip(arguments, params, strict=True)))
            if _sums_narrow(call):
                replaced = relax.op.astype(_wide(builder, replaced), call.ty.dtype)
            result = builder.emit_output(builder.emit(replaced))
        builder.emit_func_output(result)
    return builder.finalize()["kernel"]


def _sums_narrow(call: Any) -> bool:
    """Return whether an operator would sum in float16, unlike ONNX Runtime and NumPy."""
    is_tensor = isinstance(call, relax.Call) and isinstance(call.ty, relax.TensorType)
    if not is_tensor or str(call.ty.dtype) != "float16" or not isinstance(call.op, tvm.ir.Op):
        return False
    return str(call.op.name) in _PRODUCTS | _SUMS


def _wide(builder: relax.BlockBuilder, call: Any) -> Any:
    """Return an operator's result in float32."""
    if str(call.op.name) in _SUMS:
        wide = [builder.emit(relax.op.astype(value, "float32")) for value in call.args]
        return builder.emit(relax.Call(call.op, wide, call.attrs, call.ty_args))
    return builder.emit(with_attributes(call, out_dtype="float32"))


def astype(shape: Sequence[int], dtype: str, to: str) -> Any:
    """Return a Relax function that converts a tensor, or copies it."""
    var = relax.Var("p0", relax.TensorType(list(map(relax_extent, shape)), dtype))
    return outlined(relax.op.astype(var, to), [var])


def leaves(expr: Any) -> list[Any]:
    """Return the variables and constants of a call, in order, with repetitions."""
    if isinstance(expr, relax.Call):
        return [leaf for arg in expr.args for leaf in leaves(arg)]
    if isinstance(expr, relax.Tuple):
        return [leaf for field in expr.fields for leaf in leaves(field)]
    is_leaf = isinstance(expr, (relax.Var, GenericConst))
    # The variables of open extents are no tensors.
    return [expr] if is_leaf and not isinstance(expr.ty, tvm.ir.PrimType) else []


def replace_variables(expr: Any, replacements: dict[Any, Any]) -> Any:
    """Return an operator's call with other arguments."""
    if isinstance(expr, relax.Call):
        return relax.Call(
            expr.op,
            [replace_variables(a, replacements) for a in expr.args],
            expr.attrs,
            expr.ty_args,
        )
    if isinstance(expr, relax.Tuple):
        return relax.Tuple([replace_variables(f, replacements) for f in expr.fields])
    return replacements.get(expr, expr) if isinstance(expr, relax.Var) else expr
