"""Fusion of nodes that can run back to back without raising the least peak.

The rules of "Memory-aware Scheduling for Complex Wired Networks" (Theorems IV.1 and IV.2), with
conditions under which they hold for nodes with scratch, shared inputs and several results. As
worded there they can lose the optimum; ``tests/memory/test_published_rules.py`` shows where.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.exact.isolated import isolated_sequences
from tvm_ios.memory.fused_graph import FusedGraph, fused, unfused
from tvm_ios.memory.problem import MemoryProblem

#: The most nodes of an isolated sub-graph, the M of Algorithm 1.
_MOST_NODES = 24


def fuse(problem: MemoryProblem, until: float) -> FusedGraph:
    """Fuse a problem's operators to a fixed point (Algorithm 1); the least peak stays the same.

    Stops early at ``until`` (:func:`time.perf_counter`).
    """
    return fuse_further(unfused(problem), until)


def fuse_further(graph: FusedGraph, until: float) -> FusedGraph:
    """Fuse the nodes of a fused graph to a fixed point, or until ``until``."""
    size = len(graph) + 1
    while len(graph) < size and time.perf_counter() < until:
        size = len(graph)
        graph = fuse_neighbours(graph, until)
        if len(graph) == size:
            graph = _with(graph, isolated_sequences(graph, _MOST_NODES, until))
    return graph


def fuse_neighbours(graph: FusedGraph, until: float) -> FusedGraph:
    """Fuse pairs of nodes, each node with one other at most, until ``until``.

    - Node a moves *later*, right before b, if b is its only successor, a adds to the live bytes
      (or nothing) and does not need more while it runs than b does.
    - Node b moves *earlier*, right after a, if its other predecessors are ancestors of a, it does
      not add to the live bytes and does not need more than a does.

    The first must hold when everything else has been executed, the second when nothing has: then
    it holds always.
    """
    return _with(graph, (graph.sequences[a] + graph.sequences[b] for a, b in _pairs(graph, until)))


def _pairs(graph: FusedGraph, until: float) -> Iterator[tuple[int, int]]:
    """Yield disjoint pairs of nodes that may be fused, until ``until``."""
    taken = 0
    for b in range(len(graph)):
        if time.perf_counter() > until:
            return
        for a in bits(graph.predecessors[b] & ~taken):
            if taken >> b & 1:
                break
            if _delays(graph, a, b) or _advances(graph, a, b):
                taken |= 1 << a | 1 << b
                yield a, b


def _delays(graph: FusedGraph, a: int, b: int) -> bool:
    if graph.successors[a] != 1 << b:
        return False
    change, rise = graph.step(graph.all_nodes, a)
    return change >= 0 and rise <= change + graph.step(graph.all_nodes, b)[1]


def _advances(graph: FusedGraph, a: int, b: int) -> bool:
    if graph.predecessors[b] & ~(graph.ancestors[a] | 1 << a):
        return False
    change, rise = graph.step(0, a)
    change_b, rise_b = graph.step(0, b)
    return change_b <= 0 and change + rise_b <= rise


def _with(graph: FusedGraph, sequences: Iterator[tuple[int, ...]]) -> FusedGraph:
    """Return the graph in which each given sequence of operators is one node."""
    longer = list(sequences)
    inside = {operator for sequence in longer for operator in sequence}
    untouched = [sequence for sequence in graph.sequences if sequence[0] not in inside]
    return fused(graph.problem, untouched + longer, graph.waits) if longer else graph
