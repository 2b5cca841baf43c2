"""The method of "Memory-aware Scheduling for Complex Wired Networks" (Algorithm 2)."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.exact.fusion import fuse
from tvm_ios.memory.exact.least_peak import least_peak_between
from tvm_ios.memory.exact.minimum_cut import fewest_live
from tvm_ios.memory.fused_graph import FusedGraph, unfused
from tvm_ios.memory.options import DEFAULT, SchedulerOptions
from tvm_ios.memory.orders import MemoryOrder, largest_need, reverse_post_order
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.memory.published.ilp import solve_order

#: The most nodes of a part of the partition; the result is proven if there is one part.
PART = 40
#: Shares of the time limit for fusion, and for the exact search of the start and the bound of a
#: part.
_FUSION, _EXACT = 0.25, 0.2


def schedule_fusion_ilp(
    problem: MemoryProblem, time_limit: float, options: SchedulerOptions = DEFAULT
) -> MemoryOrder:
    """Fuse, divide into parts, and order by integer programming the part with the peak.

    The other parts keep reverse post-order. If the peak then lies in another part, that one is
    ordered too, until ``time_limit`` seconds are over. The integer program of a part begins with
    the order and the bound that the exact search finds in a share of the time; where these meet,
    nothing is left to solve. Without ``exact_start`` it begins with reverse post-order, as
    published.
    """
    begin = time.perf_counter()
    until = begin + time_limit
    graph = fuse(problem, begin + _FUSION * time_limit) if options.fusion else unfused(problem)
    start = reverse_post_order(graph, options.rpo_from)
    parts = max(1, -(-len(graph) // PART)) if options.parts is None else options.parts
    ends = partition(graph, parts, start, options.memory_aware)
    lows = [0, *ends][: len(ends)]
    place = {node: step for step, node in enumerate(start)}
    pieces = [
        tuple(sorted(bits(high & ~low), key=place.__getitem__))
        for low, high in zip(lows, ends, strict=True)
    ]
    bound = largest_need(problem)
    peaks: list[int] = []
    live = graph.live(0)
    for low, piece in zip(lows, pieces, strict=True):
        change, rise = graph.run(low, piece)
        peaks.append(live + rise)
        live += change
    solved: set[int] = set()
    while peaks and time.perf_counter() < until:
        worst = max(range(len(peaks)), key=peaks.__getitem__)
        if worst in solved or peaks[worst] <= bound:
            break
        low, high, start, least = lows[worst], ends[worst], pieces[worst], bound
        if options.exact_start:
            end = min(until, time.perf_counter() + _EXACT * time_limit)
            known = least_peak_between(graph, low, high, start, bound, end)
            start, least = known.nodes, known.bound
        answer = solve_order(graph, low, high, start, until, least, options)
        solved.add(worst)
        pieces[worst], peaks[worst] = answer.nodes, answer.peak
        if len(pieces) == 1:
            bound = max(bound, answer.bound)
    order = graph.unfold(node for piece in pieces for node in piece)
    peak = problem.footprints(order).peak
    seconds = time.perf_counter() - begin
    return MemoryOrder(order, peak, bound, peak == bound, seconds, len(problem), len(graph))


def partition(
    graph: FusedGraph, parts: int, order: Sequence[int], memory_aware: bool = True
) -> list[int]:
    """Divide a graph into at most ``parts`` parts with few bytes between them.

    An order gives parts of equal size; with ``memory_aware`` each boundary may move by half a part
    towards either side, to the minimum cut on tensor bytes. (The problem of section IV-C in
    "Memory-aware Scheduling for Complex Wired Networks", there left to dagP.) Return the bit sets
    of executed nodes at the ends of the parts, each within the next; the last has all nodes.
    """
    states = [0]
    for node in order:
        states.append(states[-1] | 1 << node)
    ends: list[int] = []
    for number in range(1, parts):
        begin = round((number - 0.5) * len(order) / parts)
        end = round((number + 0.5) * len(order) / parts)
        cut = states[round(number * len(order) / parts)]
        if memory_aware:
            cut = fewest_live(graph, states[begin], states[end], largest=False)
        if cut and cut != states[-1] and (not ends or cut != ends[-1]):
            ends.append(cut)
    return [*ends, states[-1]] if order else []
