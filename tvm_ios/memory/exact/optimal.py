"""The scheduler "optimal": a proven optimum, or a good order with a lower bound."""

from __future__ import annotations

import time

from tvm_ios.memory.exact.bisection import close_gap
from tvm_ios.memory.exact.fusion import fuse
from tvm_ios.memory.exact.least_peak import least_peak
from tvm_ios.memory.options import DEFAULT, SchedulerOptions
from tvm_ios.memory.orders import MemoryOrder, largest_need, reverse_post_order
from tvm_ios.memory.problem import MemoryProblem

#: Shares of the time limit for fusion, and then for the search of all states.
_FUSION, _EXACT = 0.25, 0.2


def schedule_optimal(
    problem: MemoryProblem, time_limit: float, options: SchedulerOptions = DEFAULT
) -> MemoryOrder:
    """Fuse operators without losing the optimum, then search the fused graph's states exactly.

    If the exact search takes too long, the rest of ``time_limit`` (seconds) goes into bisection,
    which gives a lower bound whenever it is stopped.
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
    order, bound = close_gap(graph, order, answer.bound, begin + time_limit)
    peak = problem.footprints(order).peak
    seconds = time.perf_counter() - begin
    return MemoryOrder(order, peak, bound, peak == bound, seconds, len(problem), len(graph))
