"""An order in which each node comes after those that it reads from."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from collections.abc import Set as AbstractSet


def topological_order(sources: Sequence[AbstractSet[int]], rank: Sequence[int]) -> list[int]:
    """Return nodes in topological order; of the ready ones, the one of least rank is next.

    ``sources`` has for each node those that it reads from. Nodes on a cycle, and all that depends
    on one, are left out.
    """
    readers: list[list[int]] = [[] for _ in sources]
    for node, before in enumerate(sources):
        for source in before:
            readers[source].append(node)
    waiting = [len(before) for before in sources]
    ready = [(rank[node], node) for node, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, node = heapq.heappop(ready)
        order.append(node)
        for reader in readers[node]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, (rank[reader], reader))
    return order
