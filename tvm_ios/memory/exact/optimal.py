"""The scheduler "optimal": a proven optimum, or a good order with a lower bound."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from tvm_ios.memory.exact.forced_order import ForcedOrder
from tvm_ios.memory.exact.fusion import fuse, fuse_further
from tvm_ios.memory.exact.least_peak import least_peak, order_within
from tvm_ios.memory.fused_graph import FusedGraph
from tvm_ios.memory.options import DEFAULT, SchedulerOptions
from tvm_ios.memory.order_walk import OrderWalk
from tvm_ios.memory.orders import MemoryOrder, largest_need, reverse_post_order
from tvm_ios.memory.problem import MemoryProblem

#: Shares of the time limit for fusion, then for the search of all states, and at last for a walk.
_FUSION, _EXACT, _WALK = 0.25, 0.2, 0.1


def schedule_optimal(
    problem: MemoryProblem, time_limit: float, options: SchedulerOptions = DEFAULT
) -> MemoryOrder:
    """Fuse operators without losing the optimum, then search the fused graph's states exactly.

    If the exact search takes too long, the rest of ``time_limit`` (seconds) goes into bisection,
    which gives a lower bound whenever it is stopped, and into a random walk from its order.
    """
    begin = time.perf_counter()
    graph = fuse(problem, begin + _FUSION * time_limit)
    start = min(
        (reverse_post_order(graph, options.rpo_from), tuple(range(len(graph)))),
        key=lambda nodes: graph.peak_from(0, nodes),
    )
    answer = least_peak(
        graph, start, largest_need(problem), time.perf_counter() + _EXACT * time_limit
    )
    plain, order = reverse_post_order(problem, options.rpo_from), graph.unfold(answer.nodes)
    if problem.footprints(plain).peak < answer.peak:
        order = plain
    order, bound = close_gap(graph, order, answer.bound, begin + (1 - _WALK) * time_limit)
    order = _walked(problem, order, bound, begin + time_limit)
    peak = problem.footprints(order).peak
    seconds = time.perf_counter() - begin
    return MemoryOrder(order, peak, bound, peak == bound, seconds, len(problem), len(graph))


def _walked(
    problem: MemoryProblem, order: Sequence[int], bound: int, until: float
) -> tuple[int, ...]:
    """Return the best order of a random walk, until one has a peak of ``bound`` bytes."""
    walk = OrderWalk(problem, order)
    best, peak = walk.order, walk.steps.peak
    while peak > bound and time.perf_counter() < until:
        if walk.move(peak) and walk.steps.peak < peak:
            best, peak = walk.order, walk.steps.peak
    return best


#: Seconds that the first thresholds may take.
_PATIENCE = 0.5

#: When this share of the gap is left below too slow thresholds, all get a longer time limit.
_NEARLY_BISECTED = 1 / 8


def close_gap(
    graph: FusedGraph, order: Sequence[int], bound: int, until: float
) -> tuple[tuple[int, ...], int]:
    """Return a better order and a better lower bound of the peak, found by bisection.

    For a threshold between them, precedence relations that every order within it must obey are
    added; with these more nodes can be fused, and the exact search visits far fewer states. It
    finds an order, refutes the threshold, or runs out of patience, after which a lower threshold is
    tried; when few are left, the patience is doubled. Stops at ``until``
    (:func:`time.perf_counter`). The order is optimal if the bound equals its peak.
    """
    problem = graph.problem
    grain, order = _grain(problem), tuple(order)
    peak, bound = problem.footprints(order).peak, -(-bound // grain) * grain
    patience, too_slow = _PATIENCE, peak
    # Relations by the threshold that they hold for; those of a higher one hold for lower ones.
    forced = {peak: ForcedOrder(graph)}
    while bound < peak and time.perf_counter() < until:
        threshold = bound + (too_slow - grain - bound) // grain // 2 * grain
        end = min(until, time.perf_counter() + patience)
        relations = forced[min(above for above in forced if above >= threshold)].copy()
        if not relations.within(threshold, time.perf_counter() + (end - time.perf_counter()) / 2):
            bound = threshold + grain
        else:
            forced[threshold] = relations
            tighter = fuse_further(relations.apply(), end)
            nodes, refuted = order_within(tighter, threshold, end)
            if nodes is not None:
                order = tighter.unfold(nodes)
                peak = too_slow = problem.footprints(order).peak
            elif refuted:
                bound = threshold + grain
            else:
                too_slow = threshold
        if too_slow - bound <= _NEARLY_BISECTED * (peak - bound):
            patience, too_slow = 2 * patience, peak
    return order, min(bound, peak)


def _grain(problem: MemoryProblem) -> int:
    """Return a number of bytes that divides every peak (the gcd of all sizes)."""
    sizes = (buffer.nbytes for buffer in problem.memory.buffers)
    return math.gcd(*sizes, *problem.scratch) or 1
