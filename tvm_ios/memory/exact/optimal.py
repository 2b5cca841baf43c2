"""The best order, proven; or a good one and how far from the best it can be."""

from __future__ import annotations

import time

from tvm_ios.memory.exact.bisection import close_gap
from tvm_ios.memory.exact.fusion import fuse
from tvm_ios.memory.exact.least_peak import least_peak
from tvm_ios.memory.options import DEFAULT, SchedulerOptions
from tvm_ios.memory.orders import MemoryOrder, largest_need, reverse_post_order
from tvm_ios.memory.problem import MemoryProblem

#: Of the time limit: how much fusion may take, and then the search of all states.
_FUSION, _EXACT = 0.25, 0.2


def schedule_optimal(
    problem: MemoryProblem, time_limit: float, options: SchedulerOptions = DEFAULT
) -> MemoryOrder:
    """Fuse what keeps the optimum, then search the states of the fused graph exactly.

    Parameters
    ----------
    problem
        The problem, of any size.
    time_limit
        Seconds. If the exact search takes too long, the rest of the time goes into bisection,
        which states a bound however early it is stopped.
    options
        Where the reverse post-order begins that is the first order.
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
