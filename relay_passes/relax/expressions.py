"""Read and rebuild Relax functions in A-normal form: bindings of expressions of leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst

from relay_passes.dialect import DialectError, Interface
from runtime_ext.kernels.function_builder import FunctionBuilder
from runtime_ext.module_copies import with_functions
from tvm_ios.files.array_files import Array

#: An argument of a flat expression.
Leaf = relax.Var | GenericConst

#: Writes an expression into a function that is being built, and returns its variable.
Emit = Callable[[Any], relax.Var]

# Otherwise TVM's pass manager would raise a RuntimeError instead.
tvm_ffi.register_error(DialectError)


def bindings_of(function: relax.Function) -> list[relax.VarBinding]:
    """Return all bindings of a function in order.

    Raise DialectError if the function has control flow or is not in A-normal form.
    """
    if not isinstance(function.body, relax.SeqExpr):
        raise DialectError("the function is not in A-normal form; run relax.transform.Normalize")
    bindings: list[relax.VarBinding] = []
    for block in function.body.blocks:
        for binding in block.bindings:
            if not isinstance(binding, relax.VarBinding):
                raise DialectError(f"main has a {type(binding).__name__}: fix the shapes")
            if isinstance(binding.value, relax.If):
                raise DialectError("the model has control flow (If), which cannot be scheduled")
            bindings.append(binding)
    return bindings


def interface(module: tvm.IRModule) -> Interface:
    """Return names, shapes and types of the parameters and results of ``main``, in order."""
    main = module["main"]
    whole = main.ret_ty
    results = whole.fields if isinstance(whole, relax.TupleType) else [whole]
    types = [(f"parameter {parameter.name!r}", parameter.ty) for parameter in main.params]
    types += [(f"result {place}", kind) for place, kind in enumerate(results)]
    return [(name, tuple(map(int, kind.shape)), str(kind.dtype)) for name, kind in types]


def calls_of(module: tvm.IRModule) -> list[relax.Call]:
    """Return the calls in ``main``, each after those whose results it reads."""
    calls: list[relax.Call] = []

    def visit(expression: Any) -> None:
        if isinstance(expression, relax.Call):
            calls.append(expression)

    relax.analysis.post_order_visit(module["main"], visit)
    return calls


def operator_name(expression: Any) -> str:
    """Return the operator of a call (``"relax.add"``), or the class name of another expression."""
    if isinstance(expression, relax.Call) and isinstance(expression.op, tvm.ir.Op):
        return str(expression.op.name)
    return type(expression).__name__


def leaves(expression: Any) -> Iterator[Leaf]:
    """Yield the variables and constants of a flat expression in order, with repetitions."""
    if isinstance(expression, relax.Call):
        for argument in expression.args:
            yield from leaves(argument)
    elif isinstance(expression, relax.Tuple):
        for field in expression.fields:
            yield from leaves(field)
    elif isinstance(expression, relax.TupleGetItem):
        yield from leaves(expression.tuple_value)
    elif isinstance(expression, relax.Var | GenericConst):
        yield expression


def first_field(value: Any, replacement: dict[Any, Any]) -> Any:
    """Return the replacement of a tuple whose first field the value takes, or None."""
    if isinstance(value, relax.TupleGetItem) and value.index == 0:
        return replacement.get(value.tuple_value)
    return None


def uses_of(function: relax.Function) -> Counter[Leaf]:
    """Count how often the bindings and the result of a function read each variable and constant."""
    uses = Counter(leaf for binding in bindings_of(function) for leaf in leaves(binding.value))
    uses.update(leaves(function.body.body))
    return uses


def substitute(expression: Any, replacement: Mapping[Any, Any]) -> Any:
    """Return the expression with its leaves replaced."""
    if isinstance(expression, relax.Call):
        arguments = [substitute(argument, replacement) for argument in expression.args]
        return relax.Call(expression.op, arguments, expression.attrs, expression.ty_args)
    if isinstance(expression, relax.Tuple):
        return relax.Tuple([substitute(field, replacement) for field in expression.fields])
    if isinstance(expression, relax.TupleGetItem):
        return relax.TupleGetItem(substitute(expression.tuple_value, replacement), expression.index)
    if isinstance(expression, relax.Var | GenericConst):
        return replacement.get(expression, expression)
    return expression


def static_shape(leaf: Any) -> tuple[int, ...]:
    """Return the extents of a tensor, or raise DialectError if its shape is not static."""
    kind = leaf.ty
    if not isinstance(kind, relax.TensorType) or kind.shape is None:
        raise DialectError(f"{_name(leaf)} is not a tensor of known rank")
    try:
        return tuple(int(extent) for extent in kind.shape)
    except TypeError as error:
        raise DialectError(
            f"{_name(leaf)} has the dynamic shape {list(kind.shape)}: bind it to numbers first"
        ) from error


def data_type(leaf: Any) -> str:
    """Return the NumPy type name of a tensor."""
    return str(leaf.ty.dtype)


def constant(array: Array) -> GenericConst:
    """Return a Relax constant that holds the array."""
    # Unlike ascontiguousarray this keeps a scalar a scalar.
    return relax.const(tvm.runtime.tensor(np.asarray(array, order="C")))


def unprinted(text: str) -> Any:
    """Return an attribute that holds a text, but does not print it with the module."""
    return tvm.runtime.tensor(np.frombuffer(text.encode(), np.uint8))


def constant_value(expression: Any) -> Array | None:
    """Return the array of a constant; None for anything else."""
    if isinstance(expression, GenericConst):
        return expression.value.numpy()
    if isinstance(expression, tvm.tirx.FloatImm | tvm.tirx.IntImm):
        return np.asarray(expression.value, dtype=str(expression.ty.dtype))
    return None


def rebuild(
    module: tvm.IRModule,
    name: str,
    emit: Callable[[relax.BlockBuilder, relax.VarBinding, dict[Any, Any]], Any],
    operators: Container[str] | None = None,
) -> tvm.IRModule:
    """Return a copy of the module with one function rebuilt binding by binding.

    ``emit`` gets the builder, each old binding and the map from old variables to new expressions.
    It returns the new variable or constant, or None to keep the binding; what it emits has the old
    name. If ``operators`` are given and the function has none of them, the module itself is
    returned.
    """
    old = module[name]
    if operators is not None and not any(
        operator_name(binding.value) in operators for binding in bindings_of(old)
    ):
        return module
    builder = FunctionBuilder(module)
    parameters = [relax.Var(p.name, p.ty) for p in old.params]
    new: dict[Any, Any] = dict(zip(old.params, parameters, strict=True))
    attributes = dict(old.attrs.items()) if old.attrs else None
    variable = module.get_global_var(name)
    scratch = f"{name}_rebuilt"
    with builder.function(scratch, parameters, attrs=attributes):
        with builder.dataflow():
            for binding in bindings_of(old):
                builder.name = binding.var.name
                emitted = emit(builder, binding, new)
                if emitted is None:
                    emitted = builder.emit(substitute(binding.value, new))
                new[binding.var] = emitted
            result = builder.emit_result(substitute(old.body.body, new))
        rebuilt = builder.emit_func_output(result)
    built = builder.finalize()
    functions = {v: f for v, f in built.functions_items() if v.name_hint not in (scratch, name)}
    functions[variable] = built[rebuilt].with_attr("global_symbol", name)
    return with_functions(module, functions)


def _name(leaf: Any) -> str:
    return f"value {leaf.name!r}" if isinstance(leaf, relax.Var) else "a constant"
