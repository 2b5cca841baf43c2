"""Isolated sub-graphs that can be fused: stopping inside one never saves memory."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.exact.least_peak import least_peak_between
from tvm_ios.memory.exact.minimum_cut import fewest_live
from tvm_ios.memory.fused_graph import FusedGraph
from tvm_ios.memory.orders import Answer

#: Seconds that ordering one sub-graph may take.
_ORDER_LIMIT = 0.5


def isolated_sequences(graph: FusedGraph, most: int, until: float) -> Iterator[tuple[int, ...]]:
    """Yield disjoint sub-graphs that may be fused, each as its operators in the best order.

    A sub-graph of at most ``most`` nodes may be fused if it is isolated, and *every* state inside
    it has at least as many live bytes as the states before and after it: an order that stops inside
    could then stop before it, or finish it, at no cost. Stops at ``until``.
    """
    taken = 0
    for source in range(len(graph)):
        if time.perf_counter() > until:
            return
        for inside in _grown(graph, source, most):
            if time.perf_counter() > until:
                return
            if inside & taken or not _is_isolated(graph, inside):
                continue
            before = 0
            for node in bits(inside):
                before |= graph.ancestors[node]
            before &= ~inside
            if not _peaks_inside(graph, before, inside):
                continue
            best = _best_order(graph, before, inside, until)
            if best.peak == best.bound:
                taken |= inside
                yield graph.unfold(best.nodes)
                break


def _grown(graph: FusedGraph, source: int, most: int) -> Iterator[int]:
    """Yield node sets entered only through the results of ``source`` and left by one node only.

    Each is yielded with the source, if it has no readers outside, and without it.
    """
    inside = 0
    reading = graph.successors[source]
    # In topological order; a node joins when all that it reads is from the source or inside.
    while reading:
        node = (reading & -reading).bit_length() - 1
        reading ^= 1 << node
        if graph.predecessors[node] & ~(inside | 1 << source):
            continue
        inside |= 1 << node
        if inside.bit_count() > most:
            return
        reading |= graph.successors[node]
        # Everything inside leads to this node, and nothing inside but this node is read outside.
        if inside & ~(graph.ancestors[node] | 1 << node):
            continue
        others = inside ^ 1 << node
        if all(not graph.successors[other] & ~inside for other in bits(others)):
            if not graph.successors[source] & ~inside:
                yield inside | 1 << source
            if others:
                yield inside


def _is_isolated(graph: FusedGraph, inside: int) -> bool:
    """Return whether the set shares no buffer with parallel nodes and all else treats it as one.

    A node outside must come before all of the set, after all of it, or be parallel to all of it.
    """
    some_before = some_after = shared = 0
    all_before = all_after = graph.all_nodes
    for node in bits(inside):
        some_before |= graph.ancestors[node]
        some_after |= graph.descendants[node]
        all_before &= graph.ancestors[node] | inside
        all_after &= graph.descendants[node] | inside
        shared |= graph.contexts[node]
    outside = ~inside
    return not ((some_before & ~all_before | some_after & ~all_after | shared) & outside)


def _peaks_inside(graph: FusedGraph, before: int, inside: int) -> bool:
    """Return whether every state inside has at least the live bytes of those before and after."""
    after = before | inside
    ends = max(graph.live(before), graph.live(after))
    first = [n for n in bits(inside) if not graph.predecessors[n] & inside]
    last = [n for n in bits(inside) if not graph.successors[n] & inside]
    return all(
        graph.live(fewest_live(graph, before | 1 << a, after ^ 1 << b, largest=False)) >= ends
        for a in first
        for b in last
        if a != b
    )


def _best_order(graph: FusedGraph, before: int, inside: int, until: float) -> Answer:
    until = min(until, time.perf_counter() + _ORDER_LIMIT)
    return least_peak_between(graph, before, before | inside, tuple(bits(inside)), 0, until)
