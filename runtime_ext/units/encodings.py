"""Choose which tensors are stored in another data type: in bytes, or in bfloat16.

In quantised models, rounded and clipped tensors hold integers of 8 bits, perhaps less a zero
point: between units they are stored as unsigned bytes. Where products are of bfloat16, their
operands are stored in it: they would be rounded anyway. Kernels convert either to floats in
registers, and those that multiply such numbers read them directly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from tvm import relax

from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.relax_function import operator_name, results, static_shape
from runtime_ext.kernels.spec import BFLOAT16, Contraction, Encoding, Pointwise, Statement, accesses
from runtime_ext.units.integers import MOVES, Bounds
from runtime_ext.units.pixel_rows import merge_pixels
from runtime_ext.units.placed import Placed
from runtime_ext.units.values import Storage
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.program import Part, Role

#: The largest number in a byte.
_LARGEST = 255
#: Operators that multiply in bfloat16 if their second operand is a constant.
_PRODUCTS = frozenset({"relax.nn.conv2d", "relax.nn.conv2d_transpose", "relax.matmul"})
#: Operators that a product's kernel applies to its input before rounding it.
_BEFORE = frozenset(
    {
        "relax.add",
        "relax.clip",
        "relax.maximum",
        "relax.minimum",
        "relax.multiply",
        "relax.nn.relu",
        "relax.subtract",
    }
)


def in_bytes(low: float, high: float) -> Encoding | None:
    """Return the encoding of a range of integers, and zero, in bytes; None if they do not fit."""
    low, high = min(low, 0), max(high, 0)
    return Encoding("uint8", -int(low)) if high - low <= _LARGEST else None


def tensor_encodings(
    graph: OpGraph,
    functions: Sequence[Any],
    integers: Sequence[Bounds | None],
    parts: Mapping[int, Part],
    allowed: Collection[str],
) -> tuple[Encoding | None, ...]:
    """Return for each tensor of a graph of units its encoding; None if it is stored unchanged.

    Inputs and outputs of the graph, and scalars, stay unchanged. The first parameters of each of
    ``functions`` are its unit's data. ``integers`` has the known range of each tensor, ``parts``
    the tensors inside others, which share an encoding, ``allowed`` the data types, as of
    :class:`~runtime_ext.kernels.spec.Encoding`.
    """
    encodings: list[Encoding | None] = [None] * len(graph.tensors)
    if "bfloat16" in allowed:
        for tensor in _rounded(graph, functions):
            encodings[tensor] = BFLOAT16
    if "uint8" in allowed:
        for tensor, bounds in enumerate(integers):
            if bounds is not None:
                encodings[tensor] = in_bytes(*bounds)
    for tensor in range(len(encodings)):
        shape = graph.tensors[tensor].shape
        if graph.producer[tensor] is None or tensor in graph.outputs or not shape:
            encodings[tensor] = None
    different = True
    while different:
        different = False
        for tensor, part in parts.items():
            if encodings[tensor] != encodings[part.of]:
                encodings[tensor] = encodings[part.of] = None
                different = True
    return tuple(encodings)


def _rounded(graph: OpGraph, functions: Sequence[Any]) -> set[int]:
    """Return the float tensors that products read, directly or through operators that move data."""
    rounded: set[int] = set()
    for op, function in reversed(list(zip(graph.operators, functions, strict=True))):
        data = [t for t in op.inputs if not graph.tensors[t].constant]
        tensor_of = dict(zip(function.params, data, strict=False))
        bound = {b.var: b.value for block in function.body.blocks for b in block.bindings}
        read: list[Any] = []
        for value in bound.values():
            if _is_product(function, value, tensor_of):
                read += _origins(value.args[0], bound, tensor_of, MOVES | _BEFORE)
        for tensor, (var, item) in zip(op.outputs, results(function), strict=True):
            if tensor in rounded and item is None:
                read += _origins(var, bound, tensor_of, MOVES)
        of_floats = {tensor_of[v] for v in read if str(v.ty.dtype) == "float32"}
        rounded |= of_floats
    return rounded


def _is_product(function: Any, value: Any, tensor_of: Mapping[Any, int]) -> bool:
    """Return whether an expression multiplies with one constant matrix that may be rounded."""
    if not isinstance(value, relax.Call) or operator_name(value) not in _PRODUCTS:
        return False
    data, factor = value.args
    is_constant = factor in list(function.params) and factor not in tensor_of
    if not is_constant or int(getattr(value.attrs, "groups", 1)) != 1:
        return False
    *batch, _, _ = (1, 1, *static_shape(data.ty))
    of_images = operator_name(value) != "relax.matmul"
    return of_images or (len(factor.ty.shape) == 2 and prod(batch) == 1)


def _origins(
    expr: Any, bound: Mapping[Any, Any], tensor_of: Mapping[Any, int], operators: Collection[str]
) -> Iterator[Any]:
    """Yield the unit's parameters from which an expression is made by the given operators alone."""
    if expr in tensor_of:
        yield expr
        return
    value = bound.get(expr, expr)
    operands: Sequence[Any] = ()
    if isinstance(value, relax.Tuple):
        operands = value.fields
    elif isinstance(value, relax.Var) and value is not expr:
        operands = (value,)
    elif isinstance(value, relax.Call) and operator_name(value) in operators:
        # The other arguments are constants, and tuples of numbers.
        tensors = bound.keys() | tensor_of.keys()
        operands = [
            argument
            for argument in value.args
            if argument in tensors
            or (isinstance(argument, relax.Tuple) and not tensors.isdisjoint(argument.fields))
        ]
        operands = operands if len(operands) == 1 else ()
    for operand in operands:
        yield from _origins(operand, bound, tensor_of, operators)


def widened(kernel: Placed[Contraction]) -> tuple[list[Placed[Pointwise]], Placed[Contraction]]:
    """Return kernels that decode a contraction's data, and the contraction that reads floats.

    No kernel is returned if the data are not encoded. Decoding first is cheaper than in registers,
    where each element would be converted again for every few weights.
    """
    spec, source = kernel.spec, kernel.storage(kernel.spec.data.buffer)
    if source.encoding is None:
        return [], kernel
    rows, columns = spec.window.input
    channels = spec.channels * spec.groups
    shape = (spec.batch, rows, columns, channels)
    strides = (rows * columns * channels, columns * channels, channels, 1)
    floats = kernel.add(Storage(Role.SCRATCH, 0, shape))
    value = ("load", replace(spec.data, buffer=0))
    statement = Statement(value, Access(1, 0, strides), 0, channels)
    copy = Pointwise((source.physical, shape), shape[:3], (statement,))
    places = list(kernel.places)
    if spec.data.buffer in (access.buffer for access in accesses(spec.statements)):
        places.append(floats)
    else:
        places[spec.data.buffer] = floats
    data = Access(places.index(floats), 0, strides)
    before = kernel.beside(merge_pixels(copy), (kernel.places[spec.data.buffer], floats))
    return [before], kernel.beside(replace(spec, data=data), places)
