"""Plans of launches, and the pairs of them that race (plain data).

A *race* is two launches that touch the same bytes, of which one writes, and that nothing orders: in
some run one is first, and in another the other, or both run at once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from tvm_ios.errors import UserError
from tvm_ios.graph.op_graph import closures, mask_of


class PlanError(UserError):
    """Raised for a plan that says too little or contradicts itself; the message names the place."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes of a memory that a launch touches: ranges of one size at equal distances.

    Attributes
    ----------
    buffer
        Name of the buffer, for reports.
    memory
        Name of the memory that the buffer lies in: bytes of different memories never overlap.
    begin, size
        The first byte in the memory, and the bytes of a range.
    count, stride
        How many ranges there are, and the bytes from the begin of one to that of the next.
    """

    buffer: str
    memory: str
    begin: int
    size: int
    count: int = 1
    stride: int = 0

    @property
    def end(self) -> int:
        """The byte after the last range."""
        return self.begin + (self.count - 1) * self.stride + self.size

    def overlaps(self, other: Span) -> bool:
        """Return whether a byte is in both."""
        if self.memory != other.memory or not (self.size and other.size):
            return False
        few, many = sorted((self, other), key=lambda span: span.count)
        return any(many.touches(few.begin + n * few.stride, few.size) for n in range(few.count))

    def touches(self, begin: int, size: int) -> bool:
        """Return whether a byte of the memory's range of this begin and size is in it."""
        if self.count == 1 or not self.stride:
            return self.begin < begin + size and begin < self.begin + self.size
        # The first range that ends after the begin.
        first = max(0, (begin - self.begin - self.size) // self.stride + 1)
        return first < self.count and self.begin + first * self.stride < begin + size


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """A launch, or a copy or anything else that touches memory, of a plan.

    Attributes
    ----------
    name
        Unique.
    after
        Numbers of launches that have finished when this one begins.
    reads, writes
        The bytes that it touches.
    work, tiles
        Launches of equal work on disjoint ranges of its tiles touch different bytes, whatever their
        spans say. Without work a launch is one of its own.
    """

    name: str
    after: frozenset[int]
    reads: Sequence[Span]
    writes: Sequence[Span]
    work: object = None
    tiles: tuple[int, int] = (0, 1)


@dataclass(frozen=True)
class Plan:
    """Launches with the order that surely holds among them."""

    launches: Sequence[PlannedLaunch]

    def before(self) -> Sequence[int]:
        """Return for each launch the bit set of those that have finished when it begins.

        Raise PlanError if launches wait for each other.
        """
        after = {number: launch.after for number, launch in enumerate(self.launches)}
        try:
            order = [*TopologicalSorter(after).static_order()]
        except CycleError as error:
            circle: Sequence[int] = error.args[1]
            first, second = (self.launches[number].name for number in circle[:2])
            raise PlanError(f"{first!r} and {second!r} wait for each other") from error
        return closures([mask_of(launch.after) for launch in self.launches], order)


@dataclass(frozen=True, slots=True)
class Race:
    """Two launches that may run in either order and touch the same bytes, of which one writes.

    Attributes
    ----------
    first, second
        The launches' names, in the order of the plan.
    buffers
        The names of the buffers that the first and the second touch there.
    writes
        Whether the first and the second write.
    """

    first: str
    second: str
    buffers: tuple[str, str]
    writes: tuple[bool, bool]


def find_races(plan: Plan) -> tuple[Race, ...]:
    """Return the races of a plan, each pair of launches once, in the order of the plan.

    Parameters
    ----------
    plan
        The launches, such as :func:`tvm_ios.program.races.document.read_plan` reads.

    Raises
    ------
    PlanError
        If launches wait for each other.
    """
    before, launches = plan.before(), plan.launches
    races: dict[tuple[int, int], Race] = {}
    for one, other in _overlaps(launches):
        first, second = sorted((one, other), key=lambda access: access.launch)
        pair = first.launch, second.launch
        ordered = before[pair[0]] >> pair[1] & 1 or before[pair[1]] >> pair[0] & 1
        if ordered or pair in races or not first.span.overlaps(second.span):
            continue
        a, b = (launches[number] for number in pair)
        apart = a.tiles[1] <= b.tiles[0] or b.tiles[1] <= a.tiles[0]
        if a.work is None or a.work != b.work or not apart:
            names = first.span.buffer, second.span.buffer
            races[pair] = Race(a.name, b.name, names, (first.writes, second.writes))
    return tuple(races[pair] for pair in sorted(races))


@dataclass(frozen=True, slots=True)
class _Access:
    launch: int
    span: Span
    writes: bool


def _overlaps(launches: Sequence[PlannedLaunch]) -> Iterator[tuple[_Access, _Access]]:
    """Yield accesses of different launches, of which one writes, whose spans' hulls overlap."""
    by_memory: dict[str, list[_Access]] = defaultdict(list)
    for number, launch in enumerate(launches):
        for spans, writes in ((launch.writes, True), (launch.reads, False)):
            for span in spans:
                by_memory[span.memory].append(_Access(number, span, writes))
    for accesses in by_memory.values():
        live: list[_Access] = []
        for access in sorted(accesses, key=lambda access: access.span.begin):
            live = [other for other in live if other.span.end > access.span.begin]
            yield from (
                (other, access)
                for other in live
                if other.launch != access.launch and (other.writes or access.writes)
            )
            live.append(access)
