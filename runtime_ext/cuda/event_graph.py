"""The event graph of a program: the events that each launch waits for, on streams (plain data).

A lane becomes a stream, so the launches of one lane keep their order by themselves, and a wait of
the program becomes a wait for an event: lowering writes no wait that another one implies. A run
*forks* from one stream, the origin, and *joins* it again, so that one capture or one event covers
it all. The C++ executor (``runtime_ext/native/cuda.cc``) has the same rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from tvm_ios.program.happens_before import ordered_launches
from tvm_ios.program.program import Launch, Program


@dataclass(frozen=True, slots=True)
class Node:
    """A launch and the events that it waits for."""

    lane: int
    #: The launch's number in its lane, from 0.
    number: int

    launch: Launch
    #: Nodes of other lanes whose events the stream waits for before the launch.
    awaits: tuple[int, ...]
    #: Whether the stream first waits for the event at the begin of the run, because nothing else
    #: orders the launch after that.
    forks: bool


@dataclass(frozen=True, slots=True)
class EventGraph:
    """A run of a program on streams."""

    #: The launches in an order in which they may be issued: every node comes after those that it
    #: waits for, and lanes take turns, so that no stream idles while another one's work is issued.
    nodes: tuple[Node, ...]
    #: The lane whose stream a run begins and ends on.
    origin: int
    #: Nodes whose events the origin waits for at the end.
    joins: tuple[int, ...]

    @property
    def recorded(self) -> frozenset[int]:
        """Nodes after which an event is recorded."""
        return frozenset(self.joins).union(*(node.awaits for node in self.nodes))

    @property
    def followers(self) -> Mapping[int, int]:
        """The nodes that wait for nothing but the node before them on their stream, with that."""
        last: dict[int, int] = {}
        followers: dict[int, int] = {}
        for number, node in enumerate(self.nodes):
            if node.lane in last and not node.awaits:
                followers[number] = last[node.lane]
            last[node.lane] = number
        return followers

    @property
    def edges(self) -> frozenset[tuple[int, int]]:
        """Pairs of nodes of which the first ends before the second begins."""
        lanes: dict[int, list[int]] = {}
        for number, node in enumerate(self.nodes):
            lanes.setdefault(node.lane, []).append(number)
        in_order = {pair for lane in lanes.values() for pair in pairwise(lane)}
        return frozenset(in_order | {(a, n) for n, x in enumerate(self.nodes) for a in x.awaits})


def event_graph(program: Program) -> EventGraph:
    """Return the event graph of a program."""
    awaits = _awaits(program)
    # A launch's key is its lane and its number in the lane, from 1.
    launches: dict[tuple[int, int], Launch] = {}
    depth: dict[tuple[int, int], int] = {}
    for lane, finished, _, launch in ordered_launches(program):
        place = (lane, finished)
        predecessors = [*awaits[place], *([(lane, finished - 1)] if finished > 1 else [])]
        depth[place] = 1 + max((depth[other] for other in predecessors), default=0)
        launches[place] = launch
    order = sorted(launches, key=lambda place: (depth[place], place))
    number = {place: n for n, place in enumerate(order)}
    origin = order[0][0] if order else 0
    nodes = tuple(
        Node(
            lane=lane,
            number=finished - 1,
            launch=launches[lane, finished],
            awaits=tuple(number[other] for other in awaits[lane, finished]),
            forks=lane != origin and finished == 1 and not awaits[lane, finished],
        )
        for lane, finished in order
    )
    # A launch of another lane, or the origin, waits for the last launch of each lane.
    ends = {node.lane: n for n, node in enumerate(nodes) if node.lane != origin}
    awaited = {other for node in nodes for other in node.awaits}
    return EventGraph(nodes, origin, joins=tuple(n for n in ends.values() if n not in awaited))


def _awaits(program: Program) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return for each launch the launches of other lanes that the waits before it name."""
    awaits: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for lane, items in enumerate(program.lanes):
        finished, awaited = 0, list[tuple[int, int]]()
        for item in items:
            if isinstance(item, Launch):
                finished += 1
                awaits[lane, finished], awaited = awaited, []
            elif item.lane != lane and item.launches > 0:
                awaited.append((item.lane, item.launches))
    return awaits
