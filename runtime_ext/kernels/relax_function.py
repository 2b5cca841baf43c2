"""Read Relax functions: parameters, operators, results and TIR functions of a unit."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from math import prod
from typing import Any

import tvm
from tvm import relax
from tvm.ir import GenericConst

from runtime_ext.kernels.function_builder import FunctionBuilder
from runtime_ext.kernels.open_shapes import extent_in_relax
from tvm_ios.shapes.extent import is_open

#: The attribute of a unit's function that holds the TIR functions by name.
_TIR = "ios.tir"
_CALL_TIR = tvm.ir.Op.get("relax.call_tir")


def scalar(expr: Any) -> float | None:
    """Return the number that an argument is, or None."""
    if isinstance(expr, GenericConst) and prod(static_shape(expr.ty)) == 1 and is_float(expr.ty):
        tensor: Any = expr
        return float(tensor.value.numpy().reshape(()))
    if isinstance(expr, (tvm.tirx.IntImm, tvm.tirx.FloatImm)):
        return float(expr.value)
    return None


def calling_module(function: Any, name: str) -> Any:
    """Return a module whose ``main`` only calls a function, under the given name.

    TIR functions attached to it become the module's.
    """
    function, others = without_tir(function)
    builder = FunctionBuilder(others)
    called = builder.add_func(function, name)
    params: list[Any] = [relax.Var(p.name, p.ty) for p in function.params]
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(relax.Call(called, params))
        builder.emit_func_output(result)
    return builder.finalize()


def results(function: Any) -> list[tuple[Any, int | None]]:
    """Return the function's results: (variable, None), or (tuple variable, index of the item)."""
    bound = {b.var: b.value for block in function.body.blocks for b in block.bindings}

    def named(var: Any) -> Any:
        """Return the variable behind other names for it."""
        while isinstance(bound.get(var), relax.Var):
            var = bound[var]
        return var

    last = named(function.body.body)
    last = bound[last] if isinstance(bound.get(last), relax.Tuple) else last
    if isinstance(last, relax.Tuple):
        return [(named(field), None) for field in last.fields]
    if isinstance(last.ty, relax.TupleType):
        return [(last, i) for i in range(len(tensor_types(last.ty)))]
    return [(last, None)]


def readers(function: Any) -> dict[Any, list[tuple[Any, Any]]]:
    """Return for each variable the bindings (variable, expression) that read it, once a read."""
    bindings: dict[Any, list[tuple[Any, Any]]] = {}

    def visit(expr: Any, binding: tuple[Any, Any]) -> None:
        if isinstance(expr, relax.Var):
            bindings.setdefault(expr, []).append(binding)
        elif isinstance(expr, relax.Call):
            for argument in expr.args:
                visit(argument, binding)
        elif isinstance(expr, relax.Tuple):
            for field in expr.fields:
                visit(field, binding)
        elif isinstance(expr, relax.TupleGetItem):
            visit(expr.tuple_value, binding)

    for block in function.body.blocks:
        for binding in block.bindings:
            visit(binding.value, (binding.var, binding.value))
    return bindings


def operator_name(call: Any) -> str:
    """Return the name of the operator that an expression calls.

    Raise ValueError if it calls none.
    """
    if isinstance(call, relax.Call) and isinstance(call.op, tvm.ir.Op):
        op: Any = call.op
        return str(op.name)
    raise ValueError(f"a unit holds {type(call).__name__}, which is no operator; legalise it first")


def attributes_of(call: Any) -> dict[str, Any]:
    """Return the attributes of an operator's call by name."""
    if call.attrs is None:
        return {}
    fields = type(call.attrs).__tvm_ffi_type_info__.fields
    return {field.name: getattr(call.attrs, field.name) for field in fields}


def with_attributes(call: Any, **changed: Any) -> Any:
    """Return an operator's call with some attributes changed."""
    key = type(call.attrs).__tvm_ffi_type_info__.type_key
    attrs = tvm.ir.make_node(key, **attributes_of(call) | changed)
    return relax.Call(call.op, call.args, attrs, call.ty_args)


@lru_cache(maxsize=4096)
def node_digest(node: Any) -> str:
    """Return a hash that different functions or expressions do not share.

    TVM's structural hash may collide: a constant -1 has that of 3.
    """
    return hashlib.sha256(tvm.ir.save_json(node).encode()).hexdigest()


def called_operators(function: Any) -> list[str]:
    """Return the names of the operators that a function calls, in order, with repetitions."""
    values = (binding.value for block in function.body.blocks for binding in block.bindings)
    is_operator = (v for v in values if isinstance(v, relax.Call) and isinstance(v.op, tvm.ir.Op))
    return [operator_name(value) for value in is_operator]


def static_shape(ty: Any) -> tuple[int, ...]:
    """Return the extents of a tensor type, open ones as expressions."""
    return tuple(extent_in_relax(extent) for extent in ty.shape)


def pair(values: Any) -> tuple[int, int]:
    """Return the two integers of an operator's attribute, or the extents of a shape."""
    first, second = (value if is_open(value) else int(value) for value in values)
    return first, second


def is_float(ty: Any) -> bool:
    """Return whether a type is a tensor of float32, which hand-written kernels support."""
    return str(getattr(ty, "dtype", "")) == "float32"


def tensor_types(ty: Any) -> list[Any]:
    """Return the types of a value: one, or those of a tuple's fields."""
    if not isinstance(ty, relax.TupleType):
        return [ty]
    whole: Any = ty
    return list(whole.fields)


def with_tir(function: Any, source: Any) -> Any:
    """Attach to a function the TIR functions that it calls by ``relax.call_tir``.

    ``source`` is its module, or the function of which it is a part, with its own attached.
    """
    called = _called(function)
    if not called:
        return function
    functions = source if isinstance(source, tvm.IRModule) else source.attrs[_TIR]
    return function.with_attr(_TIR, {v.name_hint: functions[v.name_hint] for v in called})


def without_tir(function: Any) -> tuple[Any, tvm.IRModule]:
    """Return the function alone, and a module of the private TIR functions attached to it."""
    called = _called(function)
    if not called:
        return function, tvm.IRModule()
    functions = function.attrs[_TIR]
    private = {v: functions[v.name_hint].without_attr("global_symbol") for v in called}
    return function.without_attr(_TIR), tvm.IRModule(private)


def _called(function: Any) -> list[Any]:
    calls = (binding.value for block in function.body.blocks for binding in block.bindings)
    functions = [c.args[0] for c in calls if isinstance(c, relax.Call) and c.op == _CALL_TIR]
    return list(dict.fromkeys(functions))
