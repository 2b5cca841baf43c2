"""The best order, proven."""

from __future__ import annotations

import time

from tvm_ios.memory.fusion import fuse
from tvm_ios.memory.least_peak import least_peak
from tvm_ios.memory.orders import MemoryOrder, largest_need
from tvm_ios.memory.problem import MemoryProblem


def schedule_optimal(problem: MemoryProblem, time_limit: float) -> MemoryOrder:
    """Search the states of the fused graph exactly."""
    begin = time.perf_counter()
    graph = fuse(problem, begin + time_limit / 4)
    start = range(len(graph))
    answer = least_peak(graph, start, largest_need(problem), begin + time_limit)
    order = graph.unfold(answer.nodes)
    return MemoryOrder(
        order,
        answer.peak,
        answer.bound,
        answer.peak == answer.bound,
        time.perf_counter() - begin,
        len(problem),
        len(graph),
    )
