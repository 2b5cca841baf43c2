"""Run several memory schedulers on one graph and compare their results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.memory.arena import plan_order
from tvm_ios.memory.footprint import Footprints
from tvm_ios.memory.options import DEFAULT, SchedulerOptions
from tvm_ios.memory.order_for_arena import order_for_arena
from tvm_ios.memory.orders import MemoryOrder
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
from tvm_ios.program.arena.planner import PlannedMemory
from tvm_ios.program.arena.solver import SolverLimits
from tvm_ios.progress import Progress

#: The scheduler whose order may be changed for the arena; those of the others are published.
_OURS = "optimal"
#: Seconds, at most, of placing an order, and of the search of one that can be placed in less.
_PLACING, _REORDERING = 1.0, 5.0


@dataclass(frozen=True, slots=True)
class ScheduledMemory:
    """The order that the scheduler ``name`` found, its footprints and its arena."""

    name: str
    ordered: MemoryOrder
    footprints: Footprints
    arena: PlannedMemory


def compare_schedulers(
    problem: MemoryProblem,
    names: Sequence[str],
    time_limit: float,
    progress: Progress | None = None,
    options: SchedulerOptions = DEFAULT,
) -> tuple[ScheduledMemory, ...]:
    """Run the named memory schedulers on a problem, each for ``time_limit`` seconds.

    Call ``progress`` after each.
    """
    rows: list[ScheduledMemory] = []
    for done, name in enumerate(names, start=1):
        until = time.perf_counter() + time_limit
        ordered = MEMORY_SCHEDULERS[name](problem, time_limit, options)
        row = scheduled(problem, name, ordered)
        until = min(until, time.perf_counter() + _REORDERING)
        rows.append(_reordered(problem, row, until) if name == _OURS else row)
        if progress is not None:
            progress("memory schedulers", done, len(names))
    return tuple(rows)


def scheduled(problem: MemoryProblem, name: str, ordered: MemoryOrder) -> ScheduledMemory:
    """Return the row of an order that ``name`` found."""
    arena = plan_order(problem, ordered.order, SolverLimits(seconds=_PLACING))
    return ScheduledMemory(name, ordered, problem.footprints(ordered.order), arena)


def _reordered(problem: MemoryProblem, row: ScheduledMemory, until: float) -> ScheduledMemory:
    """Return the row of an order of no larger peak and arena."""
    # Without gaps only alignment is left above the peak.
    if row.arena.proven:
        return row
    ordered, arena = order_for_arena(problem, row.ordered, row.arena, until)
    return ScheduledMemory(row.name, ordered, problem.footprints(ordered.order), arena)


def best_of(rows: Sequence[ScheduledMemory]) -> ScheduledMemory:
    """Return the row with the smallest arena; ties go to the smaller peak, then to a proven one."""
    return min(rows, key=lambda row: (row.arena.plan.nbytes, row.ordered.peak, -row.ordered.proven))
