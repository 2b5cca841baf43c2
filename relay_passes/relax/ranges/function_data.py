"""Relax functions as plain data, and with numbers of their types and shapes replaced.

Functions of one unit at several shapes are equal but for numbers. As nested tuples of texts and
numbers they are compared like an operator's attributes; the function of all shapes is that of one
shape with expressions in the places of numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.ir import GenericConst

from relay_passes.relax.expressions import operator_name
from runtime_ext.kernels.open_shapes import extent_in_relax, relax_extent
from runtime_ext.kernels.relax_function import attributes_of, node_digest
from tvm_ios.shapes.extent import (
    OpenExtentError,
    bounds,
    extents_in,
    is_open,
    numbers_in_range,
    symbols_in,
)

#: Constants of up to this many elements are compared number by number.
_SMALL = 16
_PAD = "relax.nn.pad"
#: The widths of a pad that are looked at; of more, bounds are taken.
_FEW_WIDTHS = 1 << 12
#: Infers the types of calls.
_BUILDER = relax.BlockBuilder()


def function_data(function: Any) -> tuple[Any, ...]:
    """Return the parameters' types and the bindings of a function as plain data."""
    names = {param: f"p{i}" for i, param in enumerate(function.params)}
    data: list[Any] = [tuple(_type_data(param.ty) for param in function.params)]
    for block in function.body.blocks:
        for binding in block.bindings:
            data.append((_expression_data(binding.value, names), _type_data(binding.var.ty)))
            names[binding.var] = f"v{len(names)}"
    return (*data, _expression_data(function.body.body, names))


def with_extents(function: Any, data: tuple[Any, ...], name: str) -> Any:
    """Return the function with the numbers of :func:`function_data`, which may be open extents.

    Raise OpenExtentError, which names the unit and the operator, if one is open that can only be a
    number in Relax.
    """
    types, *bindings, result = data
    variables: dict[Any, Any] = {}
    for param, ty in zip(function.params, types, strict=True):
        variables[param] = relax.Var(param.name, _type(param.ty, ty))
    rebuilt: list[Any] = []
    places = iter(bindings)
    for block in function.body.blocks:
        emitted: list[Any] = []
        for binding in block.bindings:
            expression, ty = next(places)
            kind = type(binding.var)
            variable = kind(binding.var.name, _type(binding.var.ty, ty))
            if operator_name(binding.value) == _PAD and symbols_in(expression[2]):
                data = variables[binding.value.args[0]]
                wide, value = _padded(binding.value, expression, data, ty)
                emitted.append(wide)
            else:
                value = _expression(binding.value, expression, variables, name)
            emitted.append(relax.VarBinding(variable, value))
            variables[binding.var] = variable
        rebuilt.append(type(block)(emitted))
    body = relax.SeqExpr(rebuilt, _expression(function.body.body, result, variables, name))
    whole = relax.Function(
        list(map(variables.__getitem__, function.params)), body, body.body.ty, is_pure=True
    )
    return whole if function.attrs is None else whole.with_attrs(dict(function.attrs.items()))


def _padded(pad: Any, data: Any, value: Any, ty: Any) -> tuple[Any, Any]:
    """Return the binding of a pad of as much as any shape needs, and the slice that a shape has.

    In Relax the widths of a pad are numbers.
    """
    widths: tuple[int, ...] = dict(data[2])["pad_width"]
    every = [numbers_in_range(width, _FEW_WIDTHS) or bounds(width) for width in widths]
    most = [max(0, numbers[-1]) for numbers in every]
    whole: Any = relax.op.nn.pad(value, most, pad.attrs.pad_mode, pad.attrs.pad_value)
    extents = map(extent_in_relax, value.ty.shape)
    ends = zip(most[::2], extents, most[1::2], strict=True)
    wide = relax.Var(
        f"{value.name}_padded",
        relax.TensorType([relax_extent(b + n + e) for b, n, e in ends], value.ty.dtype),
    )
    axes = list(range(len(most) // 2))
    begins = [most[2 * axis] - widths[2 * axis] for axis in axes]
    ends = [begin + extent for begin, extent in zip(begins, ty[1:], strict=True)]
    cut = relax.op.strided_slice(
        wide, axes, *(list(map(relax_extent, each)) for each in (begins, ends)), assume_inbound=True
    )
    return relax.VarBinding(wide, whole), cut


def _type_data(ty: Any) -> Any:
    if isinstance(ty, relax.TupleType):
        fields: Any = ty.fields
        return ("tuple", *map(_type_data, fields))
    if isinstance(ty, relax.TensorType):
        tensor: Any = ty
        return (str(tensor.dtype), *map(extent_in_relax, tensor.shape))
    return (type(ty).__name__,)


def _type(ty: Any, data: Any) -> Any:
    if not any(True for _ in extents_in(data)):
        return ty
    if isinstance(ty, relax.TupleType):
        fields: Any = ty.fields
        return relax.TupleType([_type(*each) for each in zip(fields, data[1:], strict=True)])
    return relax.TensorType([relax_extent(extent) for extent in data[1:]], data[0])


def _expression_data(expr: Any, names: Mapping[Any, str]) -> Any:
    match expr:
        case relax.Var() if expr in names:
            return names[expr]
        case _ if _is_number(expr):
            return extent_in_relax(expr)
        case GenericConst():
            return ("constant", *_constant_data(expr))
        case relax.ShapeExpr():
            return ("shape", *(_expression_data(value, names) for value in expr.values))
        case relax.Tuple():
            return ("tuple", *(_expression_data(field, names) for field in expr.fields))
        case relax.TupleGetItem():
            return ("item", _expression_data(expr.tuple_value, names), str(expr.index))
        case relax.Call():
            operator = str(getattr(expr.op, "name", None) or node_digest(expr.op))
            arguments = tuple(_expression_data(argument, names) for argument in expr.args)
            attributes = attributes_of(expr).items()
            return (operator, arguments, tuple((name, _plain(value)) for name, value in attributes))
        case _:
            return node_digest(expr)


def _expression(expr: Any, data: Any, variables: Mapping[Any, Any], name: str) -> Any:
    def inner(expr: Any, data: Any) -> Any:
        return _expression(expr, data, variables, name)

    match expr:
        case relax.Var() if expr in variables:
            return variables[expr]
        case _ if _is_number(expr):
            return relax_extent(data) if is_open(data) else expr
        case relax.ShapeExpr():
            return relax.ShapeExpr(list(map(inner, expr.values, data[1:])))
        case relax.Tuple():
            return relax.Tuple(list(map(inner, expr.fields, data[1:])))
        case relax.TupleGetItem():
            return relax.TupleGetItem(inner(expr.tuple_value, data[1]), expr.index)
        case relax.Call():
            operator, arguments, attributes = data
            for extent in extents_in(attributes):
                raise OpenExtentError(
                    f"unit {name!r} has the operator {operator}, of which an attribute would be "
                    f"{extent}: TVM has numbers only there"
                )
            inputs = list(map(inner, expr.args, arguments))
            return _BUILDER.normalize(relax.Call(expr.op, inputs, expr.attrs, expr.ty_args))
        case _:
            for extent in extents_in(data):
                raise OpenExtentError(
                    f"unit {name!r} has a constant that would be {extent}, which depends on the "
                    "shape"
                )
            return expr


def _is_number(expr: Any) -> bool:
    """Return whether an expression is an integer, or made of the variables of extents."""
    ty: Any = getattr(expr, "ty", None)
    return isinstance(ty, tvm.ir.PrimType) and str(ty.dtype).startswith("int")


def _constant_data(constant: Any) -> tuple[Any, ...]:
    array = constant.value.numpy()
    kind = (str(array.dtype), *map(str, array.shape))
    if array.size <= _SMALL and array.dtype.kind in "iub":
        return (*kind, tuple(int(value) for value in array.reshape(-1)))
    return (*kind, hashlib.sha256(array.tobytes()).hexdigest())


def _plain(value: Any) -> Any:
    """Return the value of an attribute as plain data."""
    if isinstance(value, tirx.IntImm):
        return int(value.value)
    if isinstance(value, (int, float, str)):
        return value
    if isinstance(value, (list, tuple, tvm.ir.Array)):
        return tuple(map(_plain, value))
    return str(value)
