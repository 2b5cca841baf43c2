"""Choose which tensors are stored inside others, so that concatenations need no copies.

A unit that only concatenates has nothing to do for an input whose producer wrote it at its place
in the result. Inputs that cannot be placed there (those of the graph, those that another
concatenation places elsewhere, those joined twice) are copied by the unit; without any it has no
kernels at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tvm import relax

from runtime_ext.kernels.relax_function import operator_name, static_shape
from runtime_ext.kernels.spec import Encoding
from runtime_ext.units.encodings import tensor_encodings
from runtime_ext.units.integers import Bounds, integer_constant, integer_tensors
from runtime_ext.units.layouts import tensor_layouts
from runtime_ext.units.unit import UnitSource
from runtime_ext.units.values import NHWC, Layout, SliceLayout, in_vectors, physical_shape
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.joins import Join, join_priority, place_joined
from tvm_ios.program.program import Part
from tvm_ios.shapes.extent import is_open

#: Logical axes in the order of memory, by layout.
_PHYSICAL = {NHWC: (0, 2, 3, 1), "": (0, 1, 2, 3)}
#: Pixels are padded to cache lines if that adds at most one channel to this many.
_PADDED = 3


@dataclass(frozen=True)
class Arrangement:
    """The placement of a graph's tensors in memory.

    ``layouts`` has each tensor's layout, ``parts`` for each tensor inside another its part of
    that, ``in_place`` for each concatenation's result the operands that are already inside it,
    ``integers`` the known range of each tensor's integers, and ``encodings`` None for tensors
    stored unchanged.
    """

    layouts: tuple[Layout, ...]
    parts: Mapping[int, Part]
    in_place: Mapping[int, frozenset[int]]
    integers: tuple[Bounds | None, ...]
    encodings: tuple[Encoding | None, ...]

    @property
    def apart(self) -> Arrangement:
        """The arrangement with each tensor in memory of its own: concatenations copy."""
        layouts = list(self.layouts)
        for tensor in self.parts:
            layout = layouts[tensor]
            layouts[tensor] = layout.order if isinstance(layout, SliceLayout) else layout
        return replace(self, layouts=tuple(layouts), parts={}, in_place={})

    def source(
        self,
        function: Any,
        data: Sequence[int],
        outputs: Sequence[int],
        constants: Sequence[Any] = (),
    ) -> UnitSource:
        """Return the compiler's input for a unit that reads and writes these tensors."""
        layouts = tuple(self.layouts[t] for t in (*data, *outputs))
        encodings = tuple(self.encodings[t] for t in (*data, *outputs))
        there = frozenset[int]().union(*(self.in_place.get(t, ()) for t in outputs))
        integers = tuple(self.integers[t] for t in data)
        if any(integers):
            integers += tuple(integer_constant(value.value.numpy()) for value in constants)
            # Assume nothing about parameters that are not given.
            integers += (None,) * (len(function.params) - len(integers))
        return UnitSource(
            function,
            layouts,
            frozenset(i for i, tensor in enumerate(data) if tensor in there),
            integers if any(integers) else (),
            () if encodings.count(None) == len(encodings) else encodings,
        )


def arrange(
    graph: OpGraph, functions: Sequence[Any], encodings: Collection[str] = (), line: int = 1
) -> Arrangement:
    """Choose the placement of the tensors of a graph of units; ``functions`` has each unit's.

    Slices are ranges of channels or of rows of images whose channels are innermost, or of any axis
    that has nothing but extents of 1 before it in memory, so that they are contiguous.
    ``encodings`` are the allowed data types. Pixels begin at multiples of ``line`` elements, a
    cache line, where that takes little memory. Merging or reordering units does not change the
    result.
    """
    orders = tensor_layouts(graph, functions)
    joins_by_unit = [_join(graph, *unit, orders) for unit in enumerate(functions)]

    def may_lie(tensor: int, join: Join) -> bool:
        dtype, shape = graph.tensors[tensor].dtype, graph.tensors[tensor].shape
        return (
            graph.producer[tensor] is not None
            and tensor not in graph.outputs
            and dtype == "float32"
            and prod(shape) > 0
            and orders[tensor] == orders[join.output]
        )

    places, joins = place_joined(
        [join for join in joins_by_unit if join is not None],
        may_lie,
        lambda join, places: not join.reads_its_result(places),
    )
    layouts: list[Layout] = list(orders)
    parts: dict[int, Part] = {}
    for tensor, place in places.items():
        axis, order = place.axis, orders[tensor]
        physical = _PHYSICAL[order].index(axis)
        layouts[tensor] = SliceLayout(order, axis, place.begin, graph.tensors[place.of].shape[axis])
        parts[tensor] = Part(place.of, physical, place.begin, place.end)
    in_place = {join.output: join.in_place(places) for join in joins}
    integers = integer_tensors(graph, functions)
    encoded = tensor_encodings(graph, functions, integers, parts, encodings)
    apart = {*parts, *(part.of for part in parts.values())}
    for tensor, order in enumerate(orders):
        if encoded[tensor] is not None or tensor in apart:
            continue
        if order == NHWC:
            layouts[tensor] = _in_lines(graph.tensors[tensor].shape[1], line)
        elif _is_between(graph, tensor):
            layouts[tensor] = in_vectors(graph.tensors[tensor].shape, order)
    return Arrangement(tuple(layouts), parts, in_place, integers, encoded)


def _is_between(graph: OpGraph, tensor: int) -> bool:
    """Return whether a tensor of floats is made by one unit and read by others alone."""
    made = graph.producer[tensor] is not None and tensor not in graph.outputs
    return made and graph.tensors[tensor].dtype == "float32"


def _in_lines(channels: int, line: int) -> Layout:
    """Return an image's layout: each pixel begins a cache line, if that takes little memory."""
    missing = -channels % line
    if not 0 < missing * _PADDED <= channels:
        return NHWC
    return SliceLayout(NHWC, 1, 0, channels + missing)


def _join(graph: OpGraph, number: int, function: Any, orders: Sequence[str]) -> Join | None:
    """Return a unit as a concatenation whose parts can be slices, or None."""
    concatenation = _concatenated(function)
    op = graph.operators[number]
    if concatenation is None or len(op.outputs) != 1:
        return None
    (output,), (axis, fields) = op.outputs, concatenation
    tensor = graph.tensors[output]
    if not 1 <= len(tensor.shape) <= 4 or tensor.dtype != "float32" or not prod(tensor.shape):
        return None
    order = orders[output]
    if is_open(tensor.shape[axis]) and axis == _PHYSICAL[order][len(tensor.shape) - 1]:
        # Kernels write whole vectors, over the begin of the next part.
        return None
    axis_in_memory = _PHYSICAL[order].index(axis)
    contiguous = prod(physical_shape(tensor.shape, order)[:axis_in_memory]) == 1
    if not contiguous and (order != NHWC or axis not in (1, 2)):
        return None
    data = [t for t in op.inputs if not graph.tensors[t].constant]
    tensor_of_parameter = dict(zip(function.params, data, strict=False))
    fields_by_tensor = tuple((tensor_of_parameter.get(var), extent) for var, extent in fields)
    return Join(
        output,
        axis,
        fields_by_tensor,
        join_priority(graph, number, prod(tensor.shape), fields_by_tensor),
    )


def _concatenated(function: Any) -> tuple[int, list[tuple[Any, int]]] | None:
    """Return the axis of a function's concatenation, and its fields with their extents along it.

    A concatenation of concatenations along one axis counts as one; None for other functions.
    """
    fields: dict[Any, list[tuple[Any, int]]] = {}
    axes: set[int] = set()
    last: Any = None
    for block in function.body.blocks:
        for binding in block.bindings:
            value = binding.value
            last = binding.var
            if value in fields:
                fields[last] = fields[value]
                continue
            if not isinstance(value, relax.Call) or operator_name(value) != "relax.concat":
                return None
            axis = int(value.attrs.axis) % len(static_shape(last.ty))
            axes.add(axis)
            operands = [(field, static_shape(field.ty)[axis]) for field in value.args[0].fields]
            fields[last] = [leaf for f in operands for leaf in fields.get(f[0], [f])]
    if len(axes) != 1 or not function.body.body.same_as(last):
        return None
    return axes.pop(), fields[last]
