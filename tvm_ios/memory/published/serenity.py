"""SERENITY: dynamic programming over states, with a budget, between single-tensor cuts.

Ahn et al., "Ordering Chaos", MLSys 2020. Its rewriting of concatenations is
:mod:`tvm_ios.memory.published.identity_rewriting`.
"""

from __future__ import annotations

import time
from collections import deque

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.fused_graph import unfused
from tvm_ios.memory.options import DEFAULT, SchedulerOptions
from tvm_ios.memory.orders import MemoryOrder, largest_need, reverse_post_order
from tvm_ios.memory.problem import MemoryProblem, is_live
from tvm_ios.memory.published.soft_budget import soft_budget


def schedule_serenity(
    problem: MemoryProblem, time_limit: float, options: SchedulerOptions = DEFAULT
) -> MemoryOrder:
    """Order each part between two single-tensor cuts by dynamic programming.

    Without cuts, some 30 parallel operators already take too long. Parts not ordered within
    ``time_limit`` seconds keep the order whose peak is the first budget: of Kahn's algorithm, as
    published, or reverse post-order if that needs less.
    """
    begin = time.perf_counter()
    until = begin + time_limit
    graph = unfused(problem)
    starts = (kahn_order(problem), reverse_post_order(problem, options.rpo_from))
    start = min(starts, key=lambda order: problem.footprints(order).peak)
    order: list[int] = []
    low, bound = 0, largest_need(problem)
    for state in single_tensor_cuts(problem):
        part = [operator for operator in start if (state & ~low) >> operator & 1]
        answer = soft_budget(graph, low, part, until)
        order += answer.nodes
        bound = max(bound, graph.live(low) + answer.bound)
        low = state
    peak = problem.footprints(order).peak
    seconds = time.perf_counter() - begin
    return MemoryOrder(
        tuple(order), peak, bound, peak == bound, seconds, len(problem), len(problem)
    )


def kahn_order(problem: MemoryProblem) -> tuple[int, ...]:
    """Return the order of Kahn's algorithm, in which operators run as they become ready."""
    order: list[int] = []
    done = 0
    queue = deque(op for op, before in enumerate(problem.predecessors) if not before)
    while queue:
        operator = queue.popleft()
        order.append(operator)
        done |= 1 << operator
        for reader in bits(problem.successors[operator]):
            if not problem.predecessors[reader] & ~done:
                queue.append(reader)
    return tuple(order)


def single_tensor_cuts(problem: MemoryProblem) -> list[int]:
    """Return the states that every order passes with only one operator's results live.

    They are bit sets of executed operators, each within the next; the last has all operators. Graph
    outputs written before do not count as live.
    """
    cuts: list[int] = []
    for operator in range(len(problem)):
        before, after = problem.ancestors[operator], problem.descendants[operator]
        state = before | 1 << operator
        if state | after != problem.all_nodes or not after:
            continue
        live = (b for b in problem.memory.buffers if is_live(b, state) and not b.at_end)
        if all(buffer.writers == 1 << operator for buffer in live):
            cuts.append(state)
    return sorted([*cuts, problem.all_nodes], key=int.bit_count) if len(problem) else []
