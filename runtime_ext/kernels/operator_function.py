"""A Relax operator as a function of its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax
from tvm.ir import GenericConst

from runtime_ext.kernels.function_builder import FunctionBuilder


def outlined(call: Any, arguments: list[Any]) -> Any:
    """The operator as a Relax function of its tensors."""
    builder = FunctionBuilder()
    params = [relax.Var(f"p{i}", a.ty) for i, a in enumerate(arguments)]
    with builder.function("kernel", params, private=True):
        with builder.dataflow():
            result = builder.emit(
                replace_variables(call, dict(zip(arguments, params, strict=True)))
            )
            result = builder.emit_output(result)
        builder.emit_func_output(result)
    return builder.finalize()["kernel"]


def astype(shape: Sequence[int], dtype: str, to: str) -> Any:
    """A Relax function that converts a tensor, or copies it."""
    var = relax.Var("p0", relax.TensorType(shape, dtype))
    return outlined(relax.op.astype(var, to), [var])


def leaves(expr: Any) -> list[Any]:
    """Variables and constants of a call, in order, repeated as they stand."""
    if isinstance(expr, relax.Call):
        return [leaf for arg in expr.args for leaf in leaves(arg)]
    if isinstance(expr, relax.Tuple):
        return [leaf for field in expr.fields for leaf in leaves(field)]
    return [expr] if isinstance(expr, (relax.Var, GenericConst)) else []


def replace_variables(expr: Any, replacements: dict[Any, Any]) -> Any:
    """An operator's call with other arguments."""
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
