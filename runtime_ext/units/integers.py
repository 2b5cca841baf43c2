"""Infer which tensors hold small integers: rounded and clipped ones, and copies of these.

Quantised models are written in floats that hold integers exactly. Where both factors of a sum of
products are known to be integers of nine bits, the products can be computed in integers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from runtime_ext.kernels.relax_function import operator_name, results, scalar
from tvm_ios.graph.op_graph import OpGraph

#: The least and the largest integer of a tensor; may be infinite.
Bounds = tuple[float, float]

#: Operators whose results are elements of their operands.
MOVES = frozenset(
    {
        "relax.concat",
        "relax.flatten",
        "relax.nn.max_pool2d",
        "relax.permute_dims",
        "relax.reshape",
        "relax.squeeze",
        "relax.strided_slice",
        "relax.expand_dims",
    }
)


def integer_tensors(graph: OpGraph, functions: Sequence[Any]) -> tuple[Bounds | None, ...]:
    """Return for each tensor of a graph of units the range of its integers, or None.

    The first parameters of each of ``functions`` are its unit's data.
    """
    bounds: list[Bounds | None] = [None] * len(graph.tensors)
    if not any(_rounds(function) for function in functions):
        return tuple(bounds)
    for op, function in zip(graph.operators, functions, strict=True):
        data = [t for t in op.inputs if not graph.tensors[t].constant]
        known = {
            parameter: bounds[tensor]
            for parameter, tensor in zip(function.params, data, strict=False)
        }
        for output, found in zip(op.outputs, _results(function, known), strict=True):
            bounds[output] = found
    return tuple(bounds)


def integer_constant(array: Any) -> Bounds | None:
    """Return a constant's least and largest number if all are integers, else None."""
    if array.dtype != np.float32 or not array.size:
        return None
    bounds = (float(array.min()), float(array.max()))
    return bounds if np.isfinite(bounds).all() and (np.rint(array) == array).all() else None


def _rounds(function: Any) -> bool:
    values = (b.value for block in function.body.blocks for b in block.bindings)
    calls = (value for value in values if isinstance(value, relax.Call))
    return any(getattr(call.op, "name", "") == "relax.round" for call in calls)


def _results(function: Any, known: Mapping[Any, Bounds | None]) -> list[Bounds | None]:
    bounds: dict[Any, Any] = dict(known)
    for block in function.body.blocks:
        for binding in block.bindings:
            bounds[binding.var] = _value(binding.value, bounds)
    found: list[Bounds | None] = []
    for var, item in results(function):
        value = bounds.get(var)
        found.append(value[item] if item is not None and isinstance(value, list) else value)
    return [value if isinstance(value, tuple) else None for value in found]


def _value(expr: Any, bounds: Mapping[Any, Any]) -> Any:
    """Return the known range of an expression; a list for a tuple."""
    if isinstance(expr, relax.Var):
        return bounds.get(expr)
    if isinstance(expr, GenericConst):
        number = scalar(expr)
        return (number, number) if number is not None and number == np.rint(number) else None
    if isinstance(expr, relax.Tuple):
        return [_value(field, bounds) for field in expr.fields]
    if isinstance(expr, relax.TupleGetItem):
        items = _value(expr.tuple_value, bounds)
        return items[expr.index] if isinstance(items, list) else None
    if not isinstance(expr, relax.Call) or not isinstance(expr.op, tvm.ir.Op):
        return None
    name = operator_name(expr)
    operands = [_value(argument, bounds) for argument in expr.args]
    if name == "relax.round":
        return operands[0] or (-inf, inf)
    if name == "relax.split":
        return [operands[0]] * len(expr.ty.fields)
    if name in MOVES:
        parts = operands[0] if isinstance(operands[0], list) else operands[:1]
        return None if None in parts else _union(parts)
    rule = RULES.get(name)
    return None if rule is None or None in operands else rule(*operands)


def _union(parts: Sequence[Bounds]) -> Bounds:
    return min(low for low, _ in parts), max(high for _, high in parts)


#: For each operator a function of its operands' bounds that returns its result's.
RULES: Mapping[str, Callable[..., Bounds]] = {
    "relax.maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "relax.minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "relax.clip": lambda a, low, high: (max(a[0], low[0]), min(max(a[1], low[0]), high[1])),
    "relax.nn.relu": lambda a: (max(a[0], 0.0), max(a[1], 0.0)),
    "relax.add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "relax.subtract": lambda a, b: (a[0] - b[1], a[1] - b[0]),
}
