"""Acyclic partition of a graph where few bytes cross."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.memory.exact.minimum_cut import fewest_live
from tvm_ios.memory.fused_graph import FusedGraph


def partition(
    graph: FusedGraph, parts: int, order: Sequence[int], memory_aware: bool = True
) -> list[int]:
    """Divide a graph into at most ``parts`` parts with few bytes between them.

    An order gives parts of equal size; with ``memory_aware`` each boundary may move by half a part
    towards either side, to the minimum cut on tensor bytes. (The problem of section IV-C in
    "Memory-aware Scheduling for Complex Wired Networks", there left to dagP.) Return the bit sets
    of executed nodes at the ends of the parts, each within the next; the last has all nodes.
    """
    states = [0]
    for node in order:
        states.append(states[-1] | 1 << node)
    ends: list[int] = []
    for number in range(1, parts):
        begin = round((number - 0.5) * len(order) / parts)
        end = round((number + 0.5) * len(order) / parts)
        cut = states[round(number * len(order) / parts)]
        if memory_aware:
            cut = fewest_live(graph, states[begin], states[end], largest=False)
        if cut and cut != states[-1] and (not ends or cut != ends[-1]):
            ends.append(cut)
    return [*ends, states[-1]] if order else []
