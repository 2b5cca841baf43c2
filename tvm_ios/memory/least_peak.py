"""The least peak of a graph, by exact search with a rising threshold."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.memory.fused_graph import FusedGraph
from tvm_ios.memory.minimum_cut import fewest_live
from tvm_ios.memory.soft_budget import peak_from
from tvm_ios.memory.state_search import StateSearch

#: States between two looks at the clock.
_SLICE = 100


@dataclass(frozen=True, slots=True)
class Answer:
    """An order of nodes, its peak, and the bytes that no order is below.

    It is the best one if both are equal.
    """

    nodes: tuple[int, ...]
    peak: int
    bound: int


def least_peak(graph: FusedGraph, start: Sequence[int], bound: int, until: float) -> Answer:
    """Find the order of nodes with the smallest peak.

    Parameters
    ----------
    graph
        Of nodes.
    start
        Any order.
    bound
        Bytes that no order is below.
    until
        When to stop at the latest, by :func:`time.perf_counter`.
    """
    return least_peak_between(graph, 0, graph.all_nodes, start, bound, until)


def least_peak_between(
    graph: FusedGraph, low: int, high: int, start: Sequence[int], bound: int, until: float
) -> Answer:
    """Order some nodes with the smallest peak.

    The threshold begins at a bound and rises to the next footprint that was refused whenever
    nothing is left within it; it is therefore always a bound. The state with the fewest live
    bytes of all lies on a best order and divides the graph; before it a search from the
    beginning finds states with fewer and fewer bytes, after it one from the end does, but either
    way may be the fast one, so that both take turns.

    Parameters
    ----------
    graph
        Of nodes.
    low, high
        The states where orders begin and end: bit sets of executed nodes.
    start, bound, until
        As for :func:`least_peak`.
    """
    peak = peak_from(graph, low, start)
    middle = fewest_live(graph, low, high, largest=True)
    nodes: list[int] = []
    for begin, end in ((low, middle), (middle, high)):
        if begin == end:
            continue
        found, bound = _search(graph, begin, end, bound, peak, until)
        if found is None:
            return Answer(tuple(start), peak, min(bound, peak))
        nodes += found
    return Answer(tuple(nodes), peak_from(graph, low, nodes), bound)


def _search(
    graph: FusedGraph, low: int, high: int, threshold: int, peak: int, until: float
) -> tuple[tuple[int, ...] | None, int]:
    """An order within the smallest threshold that has one and is below a known peak."""
    searches = [StateSearch(graph, low, high, backward=backward) for backward in (False, True)]
    while threshold < peak:
        for search in searches:
            if search.run(threshold, _SLICE):
                continue
            if search.found:
                return search.order(), threshold
            refused = search.next_threshold()
            threshold = peak if refused is None else min(refused, peak)
            break
        if time.perf_counter() > until:
            break
    return None, threshold
