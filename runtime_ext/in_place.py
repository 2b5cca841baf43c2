"""Which tensors lie in others, so that concatenations need not be computed.

A unit that only concatenates has nothing to do for an input whose producer wrote it where the
result wants it. Inputs that cannot lie there (those of the graph, what another concatenation has
elsewhere, what is joined twice) are copied by the unit; without any it has no kernels at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tvm import relax

from runtime_ext.kernels.relax_function import operator_name, static_shape
from runtime_ext.kernels.unit import UnitSource
from runtime_ext.kernels.values import NHWC, Layout, Slice, physical_shape
from runtime_ext.layouts import tensor_layouts
from tvm_ios.graph import OpGraph
from tvm_ios.program import Part

#: Logical axes in the order in which memory has them.
_PHYSICAL = {NHWC: (0, 2, 3, 1), "": (0, 1, 2, 3)}


@dataclass(frozen=True)
class Arrangement:
    """How the tensors of a graph of units lie in memory.

    Attributes
    ----------
    layouts
        For each tensor.
    parts
        For each tensor that lies in another one, where.
    in_place
        For each concatenation's result the tensors that lie where it wants them.
    """

    layouts: tuple[Layout, ...]
    parts: Mapping[int, Part]
    in_place: Mapping[int, frozenset[int]]

    def source(self, function: Any, data: Sequence[int], outputs: Sequence[int]) -> UnitSource:
        """What a compiler needs of a unit that reads and makes these tensors."""
        layouts = tuple(self.layouts[t] for t in (*data, *outputs))
        there = frozenset[int]().union(*(self.in_place.get(t, ()) for t in outputs))
        return UnitSource(
            function, layouts, frozenset(i for i, tensor in enumerate(data) if tensor in there)
        )


def arrange(graph: OpGraph, functions: Sequence[Any]) -> Arrangement:
    """Lay the tensors of a graph of units out.

    Slices are ranges of channels of images whose channels are innermost, or of any axis that has
    nothing but extents of 1 before it in memory, so that they are contiguous.

    Parameters
    ----------
    graph
        Of units; merging units or reordering them changes nothing.
    functions
        The Relax function of each unit.
    """
    orders = tensor_layouts(graph, functions)
    joins = [
        join
        for number, function in enumerate(functions)
        if (join := _join(graph, number, function, orders)) is not None
    ]
    # What is concatenated again comes after the concatenation that reads it.
    joins.sort(key=lambda join: join.priority, reverse=True)
    while True:
        places: dict[int, _Place] = {}
        for join in joins:
            _place(graph, orders, join, places)
        able = [join for join in joins if not _reads_its_result(join, places)]
        if len(able) == len(joins):
            break
        joins = able
    layouts: list[Layout] = list(orders)
    parts: dict[int, Part] = {}
    for tensor, place in places.items():
        axis, order = place.axis, orders[tensor]
        physical = _PHYSICAL[order].index(axis)
        layouts[tensor] = Slice(order, axis, place.begin, graph.tensors[place.of].shape[axis])
        parts[tensor] = Part(place.of, physical, place.begin, place.end)
    in_place = {join.output: _in_place(join, places) for join in joins}
    return Arrangement(tuple(layouts), parts, in_place)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor lies: in which one, and in which range of which logical axis."""

    of: int
    axis: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class _Join:
    """A unit that only concatenates: its result, and what it joins (None for a constant)."""

    output: int
    axis: int
    fields: tuple[tuple[int | None, int], ...]
    priority: tuple[Any, ...]

    @property
    def alone(self) -> _Place:
        """Where the result lies if it is in no other tensor."""
        return _Place(self.output, self.axis, 0, sum(extent for _, extent in self.fields))

    def places(self, whole: _Place) -> Iterator[tuple[int | None, _Place]]:
        """The fields and where they should lie if the result, or its beginning, lies there."""
        begin = whole.begin
        for tensor, extent in self.fields:
            yield tensor, _Place(whole.of, self.axis, begin, begin + extent)
            begin += extent


def _join(graph: OpGraph, number: int, function: Any, orders: Sequence[str]) -> _Join | None:
    """A unit as a concatenation whose parts can be slices, if it is one."""
    found = _joined(function)
    op = graph.operators[number]
    if found is None or len(op.outputs) != 1:
        return None
    (output,), (axis, fields) = op.outputs, found
    made = graph.tensors[output]
    if not 1 <= len(made.shape) <= 4 or made.dtype != "float32" or not prod(made.shape):
        return None
    order = orders[output]
    before = _PHYSICAL[order].index(axis)
    contiguous = prod(physical_shape(made.shape, order)[:before]) == 1
    if not contiguous and (order, axis) != (NHWC, 1):
        return None
    data = [t for t in op.inputs if not graph.tensors[t].constant]
    where = dict(zip(function.params, data, strict=False))
    named = tuple((where.get(var), extent) for var, extent in fields)
    makers = [None if t is None else graph.producer[t] for t, _ in named]
    depths = tuple(-1 if maker is None else graph.depth[maker] for maker in makers)
    extents = tuple(extent for _, extent in named)
    # The unit's number is last, because a schedule changes it.
    priority = (graph.depth[number], prod(made.shape), depths, extents, number)
    return _Join(output, axis, named, priority)


def _joined(function: Any) -> tuple[int, list[tuple[Any, int]]] | None:
    """The axis of a function's concatenation, and its fields with their extents along it.

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
            own = [(field, static_shape(field.ty)[axis]) for field in value.args[0].fields]
            fields[last] = [leaf for f in own for leaf in fields.get(f[0], [f])]
    if len(axes) != 1 or not function.body.body.same_as(last):
        return None
    return axes.pop(), fields[last]


def _place(graph: OpGraph, orders: Sequence[str], join: _Join, places: dict[int, _Place]) -> None:
    """Place the fields of a concatenation, as far as they can lie in its result."""
    if join.output not in places and _may_lie(graph, orders, join.output, join):
        # The fields may lie side by side already, in what a later concatenation joins them to.
        found = _side_by_side(join, places)
        if found is not None:
            places[join.output] = found
            return
    whole = places.get(join.output, join.alone)
    if whole.axis != join.axis:
        return
    times = Counter(tensor for tensor, _ in join.fields)
    for tensor, place in join.places(whole):
        if (
            tensor is not None
            and tensor not in places
            and times[tensor] == 1
            and _may_lie(graph, orders, tensor, join)
        ):
            places[tensor] = place


def _side_by_side(join: _Join, places: Mapping[int, _Place]) -> _Place | None:
    """The range that the fields fill, one after another; None if they do not."""
    first = None if join.fields[0][0] is None else places.get(join.fields[0][0])
    if first is None or first.axis != join.axis:
        return None
    end = first.begin
    for tensor, place in join.places(first):
        if tensor is None or places.get(tensor) != place:
            return None
        end = place.end
    return replace(first, end=end)


def _in_place(join: _Join, places: Mapping[int, _Place]) -> frozenset[int]:
    """The fields that lie where the concatenation wants them."""
    times = Counter(tensor for tensor, _ in join.fields)
    return frozenset(
        tensor
        for tensor, place in join.places(places.get(join.output, join.alone))
        if tensor is not None and times[tensor] == 1 and places.get(tensor) == place
    )


def _reads_its_result(join: _Join, places: Mapping[int, _Place]) -> bool:
    """Whether a field that must be copied lies where the concatenation writes.

    Tiles of the copy run side by side, and a program tells only of buffers who writes them.
    """
    whole = places.get(join.output, join.alone)
    copied = {tensor for tensor, _ in join.fields} - _in_place(join, places)
    found = (places[tensor] for tensor in copied if tensor in places)
    return any(p.of == whole.of and p.begin < whole.end and whole.begin < p.end for p in found)


def _may_lie(graph: OpGraph, orders: Sequence[str], tensor: int, join: _Join) -> bool:
    """Whether a tensor may be memory of the program's that lies as the result of the join does."""
    made = graph.tensors[tensor]
    return (
        graph.producer[tensor] is not None
        and tensor not in graph.outputs
        and made.dtype == "float32"
        and prod(made.shape) > 0
        and orders[tensor] == orders[join.output]
    )
