"""The event graph of a program: which launch waits for which event, on streams (plain data).

A lane becomes a stream, so the launches of one lane keep their order by themselves. Between
streams an event is needed exactly where the program's happens-before order says something that
neither the stream nor another awaited event says already. A run *forks* from one stream, the
origin, and *joins* it again, so that one capture or one event covers it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tvm_ios.program.happens_before import ordered_launches
from tvm_ios.program.program import Launch, Program


@dataclass(frozen=True, slots=True)
class Node:
    """A launch and what it waits for.

    Attributes
    ----------
    lane, number
        Which lane, and which of its launches (from 0).
    launch
        What runs.
    awaits
        Nodes of other lanes whose events the stream waits for before.
    forks
        Whether the stream waits for the run's begin before: nothing else orders it after that.
    """

    lane: int
    number: int
    launch: Launch
    awaits: tuple[int, ...]
    forks: bool


@dataclass(frozen=True, slots=True)
class EventGraph:
    """A run of a program on streams.

    Attributes
    ----------
    nodes
        In an order in which they may be issued: every node comes after what it waits for, and
        lanes take turns, so that no stream idles while another one's work is issued.
    origin
        The lane whose stream a run begins and ends on.
    joins
        Nodes whose events the origin waits for at the end.
    """

    nodes: tuple[Node, ...]
    origin: int
    joins: tuple[int, ...]

    @property
    def recorded(self) -> frozenset[int]:
        """Nodes after which an event is recorded."""
        return frozenset(self.joins).union(*(node.awaits for node in self.nodes))

    @property
    def edges(self) -> frozenset[tuple[int, int]]:
        """Pairs of nodes of which the first ends before the second begins."""
        lanes: dict[int, list[int]] = {}
        for number, node in enumerate(self.nodes):
            lanes.setdefault(node.lane, []).append(number)
        in_order = {pair for lane in lanes.values() for pair in pairwise(lane)}
        return frozenset(in_order | {(a, n) for n, x in enumerate(self.nodes) for a in x.awaits})


def event_graph(program: Program) -> EventGraph:
    """The event graph of a program, with as few events as its happens-before order allows."""
    # Launches by (lane, launches finished), and for each lane what is known at its k-th end.
    history: list[list[Sequence[int]]] = [[(0,) * len(program.lanes)] for _ in program.lanes]
    awaited: dict[tuple[int, int], list[tuple[int, int]]] = {}
    depth: dict[tuple[int, int], int] = {}
    launches: dict[tuple[int, int], Launch] = {}
    for lane, finished, known, launch in ordered_launches(program):
        place = (lane, finished)
        news = _news(history, history[lane][-1], known, lane)
        before = [*news, *([(lane, finished - 1)] if finished > 1 else [])]
        depth[place] = 1 + max((depth[other] for other in before), default=0)
        awaited[place], launches[place] = news, launch
        history[lane].append([n + (other == lane) for other, n in enumerate(known)])
    order = sorted(launches, key=lambda place: (depth[place], place))
    number = {place: n for n, place in enumerate(order)}
    origin = order[0][0] if order else 0
    ends = [len(past) - 1 for past in history]
    return EventGraph(
        nodes=tuple(
            Node(
                lane=lane,
                number=finished - 1,
                launch=launches[lane, finished],
                awaits=tuple(number[other] for other in awaited[lane, finished]),
                forks=lane != origin and finished == 1 and not awaited[lane, finished],
            )
            for lane, finished in order
        ),
        origin=origin,
        joins=tuple(number[o] for o in _news(history, history[origin][-1], ends, origin)),
    )


def _news(
    history: Sequence[Sequence[Sequence[int]]],
    before: Sequence[int],
    after: Sequence[int],
    lane: int,
) -> list[tuple[int, int]]:
    """The launches, as (lane, finished), whose ends make what a lane knows grow so.

    None of them is implied by another one.
    """
    news = [
        (other, after[other])
        for other in range(len(after))
        if other != lane and after[other] > before[other]
    ]
    return [
        (other, count)
        for other, count in news
        if not any(third != other and history[third][then][other] >= count for third, then in news)
    ]
