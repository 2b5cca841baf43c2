"""The least peak of a graph, by exact search with a rising threshold."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tvm_ios.memory.exact.minimum_cut import fewest_live
from tvm_ios.memory.exact.state_search import StateSearch
from tvm_ios.memory.fused_graph import FusedGraph
from tvm_ios.memory.orders import Answer

#: States between two looks at the clock.
_SLICE = 100


def least_peak(graph: FusedGraph, start: Sequence[int], bound: int, until: float) -> Answer:
    """Find the order of nodes with the smallest peak.

    Parameters
    ----------
    graph
        The graph of fused nodes.
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
        The graph of fused nodes.
    low, high
        The states where orders begin and end: bit sets of executed nodes.
    start, bound, until
        As for :func:`least_peak`.
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
    """Find an order of nodes within a threshold, if there is one.

    Parameters
    ----------
    graph
        The graph of fused nodes.
    threshold
        Bytes that no footprint may exceed.
    until
        When to stop at the latest, by :func:`time.perf_counter`.

    Returns
    -------
    nodes, refuted
        Without nodes, whether it has been proven that there is no such order.
    """
    nodes: list[int] = []
    for begin, end in _halves(graph, 0, graph.all_nodes):
        half, reached = _search(graph, begin, end, threshold, threshold + 1, until)
        if half is None:
            return None, reached > threshold
        nodes += half
    return tuple(nodes), False


def _halves(graph: FusedGraph, low: int, high: int) -> list[tuple[int, int]]:
    """Begin and end of what is before the state with the fewest live bytes, and after it."""
    middle = fewest_live(graph, low, high, largest=True)
    return [(a, b) for a, b in ((low, middle), (middle, high)) if a != b]


def _search(
    graph: FusedGraph, low: int, high: int, threshold: int, peak: int, until: float
) -> tuple[tuple[int, ...] | None, int]:
    """An order within the smallest threshold that has one and is below a given peak."""
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
