"""A better order and a better bound, from thresholds between the present ones."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from tvm_ios.memory.exact.forced_order import ForcedOrder
from tvm_ios.memory.exact.fusion import fuse_further
from tvm_ios.memory.exact.least_peak import order_within
from tvm_ios.memory.fused_graph import FusedGraph
from tvm_ios.memory.problem import MemoryProblem

#: Seconds that the first thresholds may take.
_PATIENCE = 0.5

#: When this share of the gap is left below what takes too long, all of it is tried for longer.
_NEARLY_BISECTED = 1 / 8


def close_gap(
    graph: FusedGraph, order: Sequence[int], bound: int, until: float
) -> tuple[tuple[int, ...], int]:
    """Bring an order's peak and a bound together by bisection.

    Within a threshold relations are forced that hold in no order otherwise; with them more can be
    fused, and the exact search has far fewer states to look at. It finds an order, or that there
    is none, or takes too long; then a lower threshold is tried, and when few are left below, all
    may take twice as long.

    Parameters
    ----------
    graph
        The graph of fused nodes.
    order
        An order of its operators.
    bound
        Bytes that no order is below.
    until
        When to stop at the latest, by :func:`time.perf_counter`.

    Returns
    -------
    order, bound
        An order of operators, and bytes. If the bound is the order's peak, no order is better.
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
    """Bytes of which every peak is a multiple."""
    sizes = (buffer.nbytes for buffer in problem.memory.buffers)
    return math.gcd(*sizes, *problem.scratch) or 1
