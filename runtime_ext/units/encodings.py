"""How tensors lie in memory that need not lie as they are: in bytes, or in bfloat16.

What quantised models round and clip are integers of 8 bits, perhaps less a zero point: they lie as
unsigned bytes between units. Where products are of bfloat16, what they read lies so: they would
round it anyway. Kernels make floats of either in registers, and those that multiply such numbers
read them as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from tvm import relax

from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.relax_function import operator_name, results, static_shape
from runtime_ext.kernels.spec import (
    BFLOAT16,
    Contraction,
    Encoding,
    Pointwise,
    Statement,
    accesses,
)
from runtime_ext.units.integers import MOVES, Bounds
from runtime_ext.units.pixel_rows import merge_pixels
from runtime_ext.units.values import Storage
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.program import Part

#: The largest number that a byte holds.
_LARGEST = 255
#: Operators whose products are of bfloat16, if their second operand is a constant.
_PRODUCTS = frozenset({"relax.nn.conv2d", "relax.nn.conv2d_transpose", "relax.matmul"})
#: Operators that a product's kernels apply to what they read, before it is rounded.
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
    """How integers, and zero, lie in bytes; None if they do not fit."""
    low, high = min(low, 0), max(high, 0)
    return Encoding("uint8", -int(low)) if high - low <= _LARGEST else None


def tensor_encodings(
    graph: OpGraph,
    functions: Sequence[Any],
    integers: Sequence[Bounds | None],
    parts: Mapping[int, Part],
    allowed: Collection[str],
) -> tuple[Encoding | None, ...]:
    """For each tensor how it lies in memory; None where it lies as it is.

    Parameters
    ----------
    graph
        A graph of units. Its inputs and outputs lie as the model has them, and so do numbers.
    functions
        The Relax function of each unit, whose first parameters are the unit's data.
    integers
        For each tensor the integers that it is known to hold.
    parts
        For each tensor that lies in another one, its part of that: both are encoded in one way.
    allowed
        The numbers in which tensors may lie, as of :class:`~runtime_ext.kernels.spec.Encoding`.
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
    """Tensors that products read, and those of which others of these choose elements."""
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
    """Whether an expression is a product with a constant that kernels may round: one matrix."""
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
    """The unit's parameters of which some operators, and no others, make an expression."""
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
        # Others are constants, and tuples of numbers.
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


def widened(
    spec: Contraction, order: Sequence[int], storages: list[Storage]
) -> tuple[Contraction, tuple[int, ...], list[tuple[Any, tuple[int, ...]]]]:
    """A contraction that reads floats, and the kernel that makes these of its data.

    Each element is multiplied by many weights, and would be made a float for each few of them.

    Parameters
    ----------
    spec, order, storages
        The contraction, the storages that its buffers are, and the unit's, of which there may be
        one more after.

    Returns
    -------
    tuple
        The contraction, its storages, and the kernel before it with its own, if there is one.
    """
    source = storages[order[spec.data.buffer]]
    if source.encoding is None:
        return spec, tuple(order), []
    rows, columns = spec.window.input
    channels = spec.channels * spec.groups
    shape = (spec.batch, rows, columns, channels)
    strides = (rows * columns * channels, columns * channels, channels, 1)
    storages.append(Storage("scratch", 0, shape))
    floats = len(storages) - 1
    value = ("load", replace(spec.data, buffer=0))
    statement = Statement(value, Access(1, 0, strides), 0, channels)
    copy = Pointwise((source.physical, shape), shape[:3], (statement,))
    places = list(order)
    if spec.data.buffer in (access.buffer for access in accesses(spec.statements)):
        places.append(floats)
    else:
        places[spec.data.buffer] = floats
    data = Access(places.index(floats), 0, strides)
    before = (merge_pixels(copy), (order[spec.data.buffer], floats))
    return replace(spec, data=data), tuple(places), [before]
