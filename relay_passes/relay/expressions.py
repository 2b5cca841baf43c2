"""Read and rebuild Relay functions without recursion, since deep networks are deep expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relay

from relay_passes.dialect import DialectError, Interface
from runtime_ext.relay.module_copies import with_main
from tvm_ios.files.array_files import Array


def post_order(function: relay.Function) -> list[Any]:
    """Return each expression of a function once, after those that it reads, without callees."""
    return reached(function.body, set())


def reached(expression: Any, visited: set[Any]) -> list[Any]:
    """Return the unvisited sub-expressions of an expression, each after those that it reads.

    They are added to ``visited``.
    """
    expressions: list[Any] = []
    pending = [(expression, False)]
    while pending:
        expression, entered = pending.pop()
        if entered:
            expressions.append(expression)
        elif expression not in visited:
            visited.add(expression)
            pending.append((expression, True))
            pending.extend((child, False) for child in reversed(children(expression)))
    return expressions


def interface(module: tvm.IRModule) -> Interface:
    """Return names, shapes and types of the parameters and results of ``main``, in order."""
    main = module["main"]
    whole = main.ret_type
    results = whole.fields if isinstance(whole, relay.TupleType) else [whole]
    types = [(f"parameter {p.name_hint!r}", p.checked_type) for p in main.params]
    types += [(f"result {place}", kind) for place, kind in enumerate(results)]
    return [(name, shape_of_type(kind, name), str(kind.dtype)) for name, kind in types]


def calls_of(module: tvm.IRModule) -> list[relay.Call]:
    """Return the calls in ``main``, each after those whose results it reads."""
    body, visited, expressions = module["main"].body, set[Any](), list[Any]()
    while isinstance(body, relay.Let):
        expressions += reached(body.value, visited)
        body = body.body
    expressions += reached(body, visited)
    return [e for e in expressions if isinstance(e, relay.Call)]


def operator_name(expression: Any) -> str:
    """Return the operator of a call (``"nn.relu"``), or the class name of another expression."""
    if isinstance(expression, relay.Call) and isinstance(expression.op, tvm.ir.Op):
        return str(expression.op.name)
    return type(expression).__name__


def children(expression: Any) -> tuple[Any, ...]:
    """Return the expressions that an expression reads directly."""
    if isinstance(expression, relay.Call):
        return tuple(expression.args)
    if isinstance(expression, relay.Tuple):
        return tuple(expression.fields)
    if isinstance(expression, relay.TupleGetItem):
        return (expression.tuple_value,)
    return ()


def arguments(expression: Any) -> tuple[Any, ...]:
    """Return the expressions that an expression reads, with tuples flattened to their fields."""
    flat: list[Any] = []
    for child in children(expression):
        flat.extend(child.fields if isinstance(child, relay.Tuple) else (child,))
    return tuple(flat)


def uses_of(function: relay.Function) -> dict[Any, int]:
    """Count how often each expression is read, including as the result of the function."""
    uses: dict[Any, int] = {function.body: 1}
    for expression in post_order(function):
        for child in children(expression):
            uses[child] = uses.get(child, 0) + 1
    return uses


def substitute(expression: Any, new: Callable[[Any], Any]) -> Any:
    """Return the expression with its children replaced, or itself if none changes."""
    before = children(expression)
    after = [new(child) for child in before]
    if all(a is b or a.same_as(b) for a, b in zip(after, before, strict=True)):
        return expression
    if isinstance(expression, relay.Call):
        call = (expression.op, after, expression.attrs, expression.type_args, expression.span)
        return relay.Call(*call)
    if isinstance(expression, relay.Tuple):
        return relay.Tuple(after)
    return relay.TupleGetItem(after[0], expression.index)


def rebuild(module: tvm.IRModule, emit: Callable[[Any, Any], Any]) -> tvm.IRModule:
    """Return a copy of the module with ``main`` rebuilt and its types inferred.

    ``emit`` gets each old expression and its copy with rebuilt children; it returns a replacement,
    or None to take the copy.
    """
    old = module["main"]
    new: dict[Any, Any] = {}
    for expression in post_order(old):
        same = substitute(expression, new.__getitem__)
        emitted = emit(expression, same)
        new[expression] = same if emitted is None else emitted
    main = relay.Function(old.params, new[old.body], None, old.type_params, old.attrs)
    return with_main(module, main)


def static_shape(expression: Any) -> tuple[int, ...]:
    """Return the extents of a typed tensor, or raise DialectError if its shape is not static."""
    kind = expression.checked_type
    if not isinstance(kind, relay.TensorType):
        raise DialectError(f"{_name(expression)} is not a tensor but of type {kind}")
    return shape_of_type(kind, _name(expression))


def shape_of_type(kind: relay.TensorType, name: str) -> tuple[int, ...]:
    """Return the extents of a tensor type; ``name`` is for the error, a :class:`DialectError`."""
    if not all(isinstance(extent, tvm.tir.IntImm) for extent in kind.shape):
        raise DialectError(
            f"{name} has the dynamic shape {list(kind.shape)}: bind it to numbers first"
        )
    return tuple(int(extent) for extent in kind.shape)


def constant(array: Array) -> relay.Constant:
    """Return a Relay constant of the array's own type: TVM's default narrows 64-bit types."""
    return relay.const(np.asarray(array), array.dtype.name)


def constant_value(expression: Any) -> Array | None:
    """Return the array of a constant; None for anything else."""
    return expression.data.numpy() if isinstance(expression, relay.Constant) else None


def _name(expression: Any) -> str:
    if isinstance(expression, relay.Var):
        return f"value {expression.name_hint!r}"
    return f"the result of {operator_name(expression)}"
