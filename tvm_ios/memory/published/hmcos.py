"""HMCOS: schedule a hierarchical graph, and ungroup it where the peak lies.

Wang et al., "Hierarchical Memory-Constrained Operator Scheduling of Neural Architecture Search
Networks", DAC 2022.
"""

from __future__ import annotations

import time

from tvm_ios.memory.options import DEFAULT, SchedulerOptions
from tvm_ios.memory.orders import MemoryOrder, largest_need, reverse_post_order
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.memory.published.hierarchy import Hierarchy, hierarchy
from tvm_ios.memory.published.soft_budget import soft_budget


def schedule_hmcos(
    problem: MemoryProblem, time_limit: float, options: SchedulerOptions = DEFAULT
) -> MemoryOrder:
    """Order groups of sequences; ungroup the one with the peak; repeat while the peak falls.

    Stops after ``time_limit`` seconds with the best order so far.
    """
    begin = time.perf_counter()
    bound = largest_need(problem)
    order = reverse_post_order(problem, options.rpo_from)
    peak, nodes = problem.footprints(order).peak, len(problem)
    level: Hierarchy | None = hierarchy(problem, begin + time_limit)
    last: int | None = None
    while level is not None and time.perf_counter() < level.until:
        answer = soft_budget(level, 0, tuple(range(len(level.groups))), level.until)
        if last is not None and answer.peak >= last:
            break
        last = answer.peak
        state, operators = 0, list[int]()
        begins: list[tuple[int, int]] = []
        for node in answer.nodes:
            begins.append((len(operators), node))
            operators += level.graph.unfold(level.order(state, node))
            state |= 1 << node
        steps = problem.footprints(operators)
        if steps.peak <= peak:
            order, peak, nodes = tuple(operators), steps.peak, len(level.groups)
        where = steps.stable.index(steps.peak) if operators else 0
        at = next((n for b, n in reversed(begins) if b <= where), None)
        grouped = at is not None and level.groups[at].bit_count() > 1
        level = level.ungrouped(at) if at is not None and grouped else None
    seconds = time.perf_counter() - begin
    return MemoryOrder(order, peak, bound, peak == bound, seconds, len(problem), nodes)
