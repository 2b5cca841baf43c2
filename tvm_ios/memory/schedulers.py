"""The memory schedulers by name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from tvm_ios.memory.exact.optimal import schedule_optimal
from tvm_ios.memory.options import DEFAULT, SchedulerOptions
from tvm_ios.memory.orders import MemoryOrder, largest_need, reverse_post_order
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.memory.published.fusion_ilp import schedule_fusion_ilp
from tvm_ios.memory.published.hmcos import schedule_hmcos
from tvm_ios.memory.published.serenity import schedule_serenity


class MemoryScheduler(Protocol):
    """A function that finds an order of a problem within about ``time_limit`` seconds."""

    def __call__(
        self, problem: MemoryProblem, time_limit: float, options: SchedulerOptions = DEFAULT
    ) -> MemoryOrder:
        """Return the best order found."""
        ...


def schedule_rpo(
    problem: MemoryProblem, time_limit: float, options: SchedulerOptions = DEFAULT
) -> MemoryOrder:
    """Return the reverse post-order, which compilers commonly run; needs no time limit."""
    del time_limit
    begin = time.perf_counter()
    order = reverse_post_order(problem, options.rpo_from)
    peak, bound = problem.footprints(order).peak, largest_need(problem)
    seconds = time.perf_counter() - begin
    return MemoryOrder(order, peak, bound, peak == bound, seconds, len(problem), len(problem))


#: The schedulers by their names on the command line, in the order of tables.
MEMORY_SCHEDULERS: Mapping[str, MemoryScheduler] = MappingProxyType(
    {
        "rpo": schedule_rpo,
        "serenity": schedule_serenity,
        "hmcos": schedule_hmcos,
        "fusion-ilp": schedule_fusion_ilp,
        "optimal": schedule_optimal,
    }
)
