"""Good orders of graphs that are too large or too wide to be proven."""

from __future__ import annotations

import time

from tvm_ios.graph import bits, mask_of
from tvm_ios.memory.fused_graph import FusedGraph
from tvm_ios.memory.orders import Answer

#: Of the first pass.
_WIDTH = 8


def widening_beam(graph: FusedGraph, known: Answer, until: float) -> Answer:
    """Improve an order by beam searches, each four times as wide as the one before.

    Parameters
    ----------
    graph
        Of nodes.
    known
        The order to improve, and a bound; with it the search stops.
    until
        When to stop at the latest, by :func:`time.perf_counter`.
    """
    width = _WIDTH
    while known.bound < known.peak and time.perf_counter() < until:
        found = _beam(graph, width, known.peak, until)
        if found is not None:
            known = Answer(found[0], found[1], known.bound)
        width *= 4
    return known


def _beam(
    graph: FusedGraph, width: int, below: int, until: float
) -> tuple[tuple[int, ...], int] | None:
    """An order whose peak is below some bytes, from so many states of every size.

    Those with the smallest peak so far are kept, and of these those with the fewest live bytes.
    """
    ready = mask_of(node for node in range(len(graph)) if not graph.predecessors[node])
    level: dict[int, tuple[int, int, int, int]] = {0: (0, graph.live(0), ready, -1)}
    levels: list[dict[int, int]] = []
    for _ in range(len(graph)):
        following: dict[int, tuple[int, int, int, int]] = {}
        for state, (peak, live, ready, _) in level.items():
            if time.perf_counter() > until:
                return None
            for node in bits(ready):
                change, rise = graph.step(state, node)
                reached = max(peak, live + rise)
                after = state | 1 << node
                if reached >= below or (after in following and following[after][0] <= reached):
                    continue
                opened = ready ^ 1 << node
                for reader in bits(graph.successors[node]):
                    if not graph.predecessors[reader] & ~after:
                        opened |= 1 << reader
                following[after] = (reached, live + change, opened, node)
        kept = sorted(following.items(), key=lambda item: item[1][:2])[:width]
        level = dict(kept)
        levels.append({state: known[3] for state, known in kept})
        if not level:
            return None
    state, order = graph.all_nodes, list[int]()
    for last in reversed(levels):
        order.append(last[state])
        state ^= 1 << last[state]
    return tuple(reversed(order)), level[graph.all_nodes][0]
