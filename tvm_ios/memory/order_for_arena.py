"""A search of orders for the smallest arena, where an order of the least peak leaves gaps in it.

Many orders have the same peak, and only some of them can be placed without gaps: they are tried one
after another along a random walk.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace

from tvm_ios.memory.arena import aligned, plan_order
from tvm_ios.memory.order_walk import OrderWalk
from tvm_ios.memory.orders import MemoryOrder
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.program.arena.planner import PlannedMemory
from tvm_ios.program.arena.solver import SolverLimits

#: Nodes of the search that places an order.
_NODES = 20_000
#: Moves before an order is placed, at first and at most.
_FEW_MOVES, _MANY_MOVES = 4, 256


def order_for_arena(
    problem: MemoryProblem,
    found: MemoryOrder,
    arena: PlannedMemory,
    until: float,
    *,
    most_peak: int | None = None,
    seed: int = 0,
) -> tuple[MemoryOrder, PlannedMemory]:
    """Return an order whose arena is not larger than that of a known one, and its arena.

    The peak may rise to ``most_peak``, which is that of the known order if it is None. Ends when
    no arena can be smaller, or at ``until`` (:func:`time.perf_counter`). The orders that are tried
    depend on the seed alone.
    """
    most_peak = found.peak if most_peak is None else most_peak
    walk, pauses = OrderWalk(problem, found.order, seed), random.Random(seed)
    best, moves = found, _FEW_MOVES
    while arena.plan.nbytes > aligned(found.bound) and (now := time.perf_counter()) < until:
        for _ in range(pauses.randint(1, moves)):
            # An order with a larger peak has no smaller arena.
            walk.move(min(most_peak, arena.plan.nbytes - 1))
        limits = SolverLimits(nodes=_NODES, deterministic=0.0, seconds=until - now)
        placed = plan_order(problem, walk.order, limits)
        if placed.plan.nbytes < arena.plan.nbytes:
            peak = walk.steps.peak
            best = replace(found, order=walk.order, peak=peak, proven=peak == found.bound)
            arena, moves = placed, _FEW_MOVES
        else:
            moves = min(2 * moves, _MANY_MOVES)
    return best, arena
