"""Exact search for the least peak of a graph, with a rising threshold."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tvm_ios.memory.exact.minimum_cut import fewest_live
from tvm_ios.memory.exact.state_search import StateSearch
from tvm_ios.memory.fused_graph import FusedGraph
from tvm_ios.memory.orders import Answer

#: States that a search expands before the other one takes its turn.
_SLICE = 100


def least_peak(graph: FusedGraph, start: Sequence[int], bound: int, until: float) -> Answer:
    """Search for the order of nodes with the smallest peak, until ``until``.

    ``start`` is any order; ``bound`` is a known lower bound of the peak in bytes.
    """
    return least_peak_between(graph, 0, graph.all_nodes, start, bound, until)


def least_peak_between(
    graph: FusedGraph, low: int, high: int, start: Sequence[int], bound: int, until: float
) -> Answer:
    """Search for the order with the smallest peak from one state to another.

    The threshold begins at the lower bound; when no state is left within it, it rises to the
    smallest footprint that was refused, and so always is a lower bound. The state with the fewest
    live bytes lies on a best order and divides the graph: each half is searched forward and
    backward in turns, because either may be the fast one. States are bit sets of executed nodes.
    """
    peak = graph.peak_from(low, start)
    nodes: list[int] = []
    for begin, end in _halves(graph, low, high):
        half, bound = _search(graph, begin, end, bound, peak, until)
        if half is None:
            return Answer(tuple(start), peak, min(bound, peak))
        nodes += half
    return Answer(tuple(nodes), graph.peak_from(low, nodes), bound)


def order_within(
    graph: FusedGraph, threshold: int, until: float
) -> tuple[tuple[int, ...] | None, bool]:
    """Return an order of nodes within a threshold or None, and whether none was proven to exist."""
    nodes: list[int] = []
    for begin, end in _halves(graph, 0, graph.all_nodes):
        half, reached = _search(graph, begin, end, threshold, threshold + 1, until)
        if half is None:
            return None, reached > threshold
        nodes += half
    return tuple(nodes), False


def _halves(graph: FusedGraph, low: int, high: int) -> list[tuple[int, int]]:
    """Return (begin, end) of the parts before and after the state with the fewest live bytes."""
    middle = fewest_live(graph, low, high, largest=True)
    return [(a, b) for a, b in ((low, middle), (middle, high)) if a != b]


def _search(
    graph: FusedGraph, low: int, high: int, threshold: int, peak: int, until: float
) -> tuple[tuple[int, ...] | None, int]:
    """Return an order below ``peak`` with the smallest threshold that has one, and that threshold.

    The order is None if there is none below the peak or the time is over.
    """
    searches = [StateSearch(graph, low, high, backward=backward) for backward in (False, True)]
    while threshold < peak:
        for search in searches:
            if search.run(threshold, _SLICE, until):
                continue
            if search.finished:
                return search.order(), threshold
            refused = search.next_threshold()
            threshold = peak if refused is None else min(refused, peak)
            break
        if time.perf_counter() > until:
            break
    return None, threshold
