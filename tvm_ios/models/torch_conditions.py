"""Conditions on the dynamic dimensions for which a program of torch.export holds.

They are texts of Python, which is read and not run: arithmetic and comparisons of sizes of inputs.
"""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from tvm_ios.errors import ModelError
from tvm_ios.shapes.extent import OpenExtentError, evaluate_arrays, symbols_in
from tvm_ios.shapes.input_shapes import InputShapeError

#: The property of a model that holds them.
PROPERTY = "torch_conditions"
#: The most shapes of a range, all of which are tried.
_MOST = 1 << 22
_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.And: np.logical_and,
    ast.Or: np.logical_or,
}
_FUNCTIONS = {"min": np.minimum, "max": np.maximum}


def require_conditions(model: Any, shapes: Mapping[str, Sequence[int]]) -> None:
    """Raise InputShapeError unless the conditions of an ONNX model hold at all shapes of inputs.

    The extents may be open. Raise ModelError if a condition says something else than comparisons of
    sizes, OpenExtentError if there are too many shapes to try.
    """
    conditions = {p.key: p.value for p in model.metadata_props}.get(PROPERTY)
    if conditions is None:
        return
    symbols = symbols_in(tuple(map(tuple, shapes.values())))
    if prod(s.most - s.least + 1 for s in symbols) > _MOST:
        raise OpenExtentError(
            f"{model.graph.name} was exported with conditions on its sizes, and the range has too "
            "many to try: give it a step"
        )
    numbers = [np.arange(s.least, s.most + 1) for s in symbols]
    axes = np.meshgrid(*numbers, indexing="ij", sparse=True)
    values = {symbol.name: axis for symbol, axis in zip(symbols, axes, strict=True)}
    sizes = {name: [evaluate_arrays(e, values) for e in shape] for name, shape in shapes.items()}
    for condition in json.loads(conditions):
        try:
            with np.errstate(divide="ignore"):
                holds = _value(_parsed(condition), sizes)
        except KeyError:
            continue  # A shape is missing, which is said elsewhere.
        if not np.all(holds):
            raise InputShapeError(
                f"{model.graph.name} was exported for sizes where {condition}, unlike some of "
                "these: export it for others"
            )


def _parsed(condition: str) -> ast.expr:
    try:
        return ast.parse(condition, mode="eval").body
    except (SyntaxError, RecursionError) as error:
        raise ModelError(f"the condition {condition[:60]!r} of a program is unreadable") from error


def _value(node: ast.expr, sizes: Mapping[str, Sequence[Any]]) -> Any:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.BoolOp(op=op, values=values):
            return reduce(_OPERATORS[type(op)], [_value(value, sizes) for value in values])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, sizes)
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in _FUNCTIONS:
            return reduce(_FUNCTIONS[name], [_value(argument, sizes) for argument in arguments])
        case ast.Subscript(
            value=ast.Call(
                func=ast.Attribute(
                    value=ast.Subscript(value=ast.Name(id="L"), slice=ast.Constant(value=name)),
                    attr="size",
                ),
                args=[],
            ),
            slice=ast.Constant(value=int(axis)),
        ):
            return sizes[str(name)][axis]
        case _:
            raise ModelError(
                f"the program was exported with the condition {ast.unparse(node)!r} on its "
                "dynamic dimensions: export it with fixed shapes"
            )
