"""Orders of sub-graph instances (section 3.3), compared by the fast memory that they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from tvm_ios.graph.op_graph import bits
from tvm_ios.graphturbo.instances import Instances
from tvm_ios.memory.exact.optimal import schedule_optimal
from tvm_ios.memory.footprint import footprints
from tvm_ios.memory.problem import memory_problem

#: Seconds that the exact search may take; it then returns the best order it has found.
SEARCH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class InstanceOrder:
    """An order of all instances, each after those that it reads from, and its peak in bytes.

    The peak counts the pieces that wait for a reader, and the running instance's own footprint.
    ``name`` says how the order was found, and ``proven`` whether no order has a smaller peak.
    """

    name: str
    order: tuple[int, ...]
    peak: int
    proven: bool = False


def breadth_first(predecessors: Sequence[int]) -> tuple[int, ...]:
    """Return instances level by level (figure 7a)."""
    waiting = [mask.bit_count() for mask in predecessors]
    order = [i for i, count in enumerate(waiting) if not count]
    readers = _readers(predecessors)
    for instance in order:
        for reader in readers[instance]:
            waiting[reader] -= 1
            if not waiting[reader]:
                order.append(reader)
    return tuple(order)


def depth_first(predecessors: Sequence[int]) -> tuple[int, ...]:
    """Return the order in which the instance that became ready last runs next (Algorithm 3)."""
    waiting = [mask.bit_count() for mask in predecessors]
    readers = _readers(predecessors)
    ready = [i for i, count in enumerate(waiting) if not count]
    order: list[int] = []
    while ready:
        order.append(ready.pop())
        for reader in readers[order[-1]]:
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return tuple(order)


def heaviest_first(predecessors: Sequence[int], weights: Sequence[int]) -> tuple[int, ...]:
    """Return the order in which the heaviest ready instance runs next (section 3.6).

    ``weights`` are the bytes of each instance; of equals the later one runs.
    """
    waiting = [mask.bit_count() for mask in predecessors]
    readers = _readers(predecessors)
    ready = [(-weights[i], -i) for i, count in enumerate(waiting) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        order.append(-heappop(ready)[1])
        for reader in readers[order[-1]]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, (-weights[reader], -reader))
    return tuple(order)


def order_instances(instances: Instances, exact: bool = True) -> tuple[InstanceOrder, ...]:
    """Return all orders, the one that takes the least memory first; of equals the depth-first one.

    With ``exact``, the least peak is searched for too, for :data:`SEARCH_SECONDS` at most.
    """
    masks = instances.predecessors
    weights = [instance.work.peak for instance in instances.instances]
    heuristics: dict[str, Callable[[], tuple[int, ...]]] = {
        "depth-first": lambda: depth_first(masks),
        "breadth-first": lambda: breadth_first(masks),
        "heaviest-first": lambda: heaviest_first(masks, weights),
    }
    orders = [
        InstanceOrder(name, order := make(), order_peak(instances, order))
        for name, make in heuristics.items()
    ]
    if exact:
        problem = memory_problem(instances.as_graph, scratch=instances.scratch)
        best = schedule_optimal(problem, SEARCH_SECONDS)
        orders.append(InstanceOrder("exact", tuple(best.order), best.peak))
        orders = [
            InstanceOrder(o.name, o.order, o.peak, best.proven and o.peak == best.peak)
            for o in orders
        ]
    return tuple(sorted(orders, key=lambda order: order.peak))


def order_peak(instances: Instances, order: Sequence[int]) -> int:
    """Return the bytes that an order needs at its peak."""
    return footprints(instances.as_graph, order, scratch=instances.scratch).peak


def _readers(predecessors: Sequence[int]) -> list[list[int]]:
    readers: list[list[int]] = [[] for _ in predecessors]
    for instance, mask in enumerate(predecessors):
        for source in bits(mask):
            readers[source].append(instance)
    return readers
