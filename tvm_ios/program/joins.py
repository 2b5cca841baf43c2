"""Placement of concatenated tensors directly in the result, side by side, so nothing is copied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.tile_ranges import at_most, same
from tvm_ios.shapes.extent import hint_of


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a tensor in another one: the range [begin, end) of one axis."""

    of: int
    axis: int
    begin: int
    end: int

    def is_at(self, other: Place | None) -> bool:
        """Return whether another place is this one for every shape."""
        return (
            other is not None
            and (self.of, self.axis) == (other.of, other.axis)
            and same(self.begin, other.begin)
            and same(self.end, other.end)
        )

    def overlaps(self, other: Place) -> bool:
        """Return whether another range of this tensor has elements of this one for some shape."""
        apart = at_most(self.end, other.begin) or at_most(other.end, self.begin)
        return self.of == other.of and not apart


#: The place of each tensor that lies in another one, which lies in no other itself.
Places = Mapping[int, Place]


@dataclass(frozen=True, slots=True)
class Join:
    """A unit that only concatenates."""

    #: The tensor of the result.
    output: int
    #: The axis of the result along which the inputs lie side by side.
    axis: int
    #: The tensors that it joins (None for a constant), each with its extent along the axis.
    fields: tuple[tuple[int | None, int], ...]
    #: Joins of higher priority are placed first; see :func:`join_priority`.
    priority: tuple[Any, ...]

    def in_place(self, places: Places) -> frozenset[int]:
        """Return the fields that lie where the result needs them."""
        times = Counter(tensor for tensor, _ in self.fields)
        return frozenset(
            tensor
            for tensor, place in self.field_places(places.get(self.output, self.alone))
            if tensor is not None and times[tensor] == 1 and place.is_at(places.get(tensor))
        )

    def reads_its_result(self, places: Places) -> bool:
        """Return whether a field that must be copied lies in the memory of the result.

        Tiles of the copy run side by side, and a program records writers only for whole buffers.
        """
        whole = places.get(self.output, self.alone)
        copied = {tensor for tensor, _ in self.fields} - self.in_place(places)
        owners = (places[t] for t in copied if t is not None and t in places)
        return any(owner.overlaps(whole) for owner in owners)

    def field_places(self, whole: Place) -> Iterator[tuple[int | None, Place]]:
        """Yield each field with the place that it should have if the result begins at ``whole``."""
        begin = whole.begin
        for tensor, extent in self.fields:
            yield tensor, Place(whole.of, self.axis, begin, begin + extent)
            begin += extent

    @property
    def alone(self) -> Place:
        """The place of the result if it lies in no other tensor."""
        return Place(self.output, self.axis, 0, sum(extent for _, extent in self.fields))


def join_priority(
    graph: OpGraph, unit: int, size: int, fields: Sequence[tuple[int | None, int]]
) -> tuple[Any, ...]:
    """Return the priority of a concatenation: the deeper in the graph, the higher.

    So a concatenation comes before those that it reads. ``size`` is the number of elements of the
    result. The unit's number is last, because a schedule changes it.
    """
    makers = [None if t is None else graph.producer[t] for t, _ in fields]
    depths = tuple(-1 if maker is None else graph.depth[maker] for maker in makers)
    extents = tuple(hint_of(extent) for _, extent in fields)
    return (graph.depth[unit], hint_of(size), depths, extents, unit)


def place_joined(
    joins: Sequence[Join],
    may_lie: Callable[[int, Join], bool],
    works: Callable[[Join, Places], bool],
) -> tuple[Places, list[Join]]:
    """Place joined tensors in their results, as far as possible.

    ``may_lie`` says whether a tensor may lie in memory where the result of a join does; ``works``
    says whether a join can be computed with such places, otherwise it is left as it was. Return the
    places and the joins that they are for.
    """
    candidates = sorted(joins, key=lambda join: join.priority, reverse=True)
    while True:
        places: dict[int, Place] = {}
        for join in candidates:
            _place(join, may_lie, places)
        left = [join for join in candidates if works(join, places)]
        if len(left) == len(candidates):
            return places, candidates
        candidates = left


def _place(join: Join, may_lie: Callable[[int, Join], bool], places: dict[int, Place]) -> None:
    """Place the fields of a concatenation in its result, as far as they can lie there."""
    if join.output not in places and may_lie(join.output, join):
        # The fields may lie side by side already, in what a later concatenation joins them to.
        side_by_side = _side_by_side(join, places)
        if side_by_side is not None:
            places[join.output] = side_by_side
            return
    whole = places.get(join.output, join.alone)
    if whole.axis != join.axis:
        return
    times = Counter(tensor for tensor, _ in join.fields)
    for tensor, place in join.field_places(whole):
        if (
            tensor is not None
            and tensor not in places
            and times[tensor] == 1
            and may_lie(tensor, join)
        ):
            places[tensor] = place


def _side_by_side(join: Join, places: Places) -> Place | None:
    """Return the range that the fields already fill one after another; None if they do not."""
    first = None if join.fields[0][0] is None else places.get(join.fields[0][0])
    if first is None or first.axis != join.axis:
        return None
    end = first.begin
    for tensor, place in join.field_places(first):
        if tensor is None or not place.is_at(places.get(tensor)):
            return None
        end = place.end
    return replace(first, end=end)
