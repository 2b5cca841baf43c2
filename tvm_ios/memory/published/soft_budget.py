"""SERENITY's dynamic program over states, with adaptive soft budgeting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import Enum

from tvm_ios.graph.op_graph import bits, mask_of
from tvm_ios.memory.orders import Answer
from tvm_ios.memory.state_graph import StateGraph

#: Seconds that one step of the dynamic program may take at first.
_STEP_LIMIT = 0.25


class _Flag(Enum):
    """The reason why a run of the dynamic program found no order."""

    NO_SOLUTION = "no solution"
    TIMEOUT = "timeout"


def soft_budget(graph: StateGraph, low: int, start: Sequence[int], until: float) -> Answer:
    """Order some nodes with the smallest peak (SERENITY, Algorithms 1 and 2) after ``low``.

    States above the budget are pruned. The budget begins at the peak of the known order ``start``;
    a run with a step that takes too long lowers it, a run that prunes every order raises it, by
    bisection. When no budget is left between those, steps may take twice as long. The answer's
    bytes are above those live before.
    """
    bound, peak = 0, graph.run(low, start)[1]
    limit = _STEP_LIMIT
    # A budget of `bound - 1` has no solution, one of `peak` has one.
    budget, too_slow = peak, peak + 1
    while bound < peak and time.perf_counter() < until:
        outcome = _dynamic_program(graph, low, mask_of(start), budget, limit, until)
        if isinstance(outcome, tuple):
            peak = graph.run(low, outcome)[1]
            return Answer(outcome, peak, peak)
        if outcome is _Flag.NO_SOLUTION:
            bound = budget + 1
        else:
            too_slow = budget
        if bound >= too_slow:
            limit, too_slow, budget = 2 * limit, peak + 1, peak
        else:
            budget = (bound + too_slow) // 2
    return Answer(tuple(start), peak, min(bound, peak))


def _dynamic_program(
    graph: StateGraph, low: int, within: int, budget: int, limit: float, until: float
) -> tuple[int, ...] | _Flag:
    """Return the order with the smallest peak if that is within the budget.

    Keeps, for every state of one size, the smallest peak of an order that leads to it.
    """
    ready = mask_of(n for n in bits(within) if not graph.predecessors[n] & ~low)
    # For each state: peak and live bytes above those of the first, ready nodes, the last node.
    level = {low: (0, 0, ready, -1)}
    levels = [level]
    for _ in range(within.bit_count()):
        end = min(until, time.perf_counter() + limit)
        following: dict[int, tuple[int, int, int, int]] = {}
        for state, (peak, live, ready, _) in level.items():
            if time.perf_counter() > end:
                return _Flag.TIMEOUT
            for node in bits(ready):
                change, rise = graph.step(state, node)
                reached = max(peak, live + rise)
                after = state | 1 << node
                best = following.get(after)
                if reached > budget or (best is not None and best[0] <= reached):
                    continue
                opened = ready ^ 1 << node
                for reader in bits(graph.successors[node] & within):
                    if not graph.predecessors[reader] & ~after:
                        opened |= 1 << reader
                following[after] = (reached, live + change, opened, node)
        if not following:
            return _Flag.NO_SOLUTION
        level = following
        levels.append(level)
    state, order = low | within, list[int]()
    for level in reversed(levels[1:]):
        node = level[state][3]
        order.append(node)
        state ^= 1 << node
    return tuple(reversed(order))
