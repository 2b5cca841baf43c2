"""Memory schedulers side by side on one graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.memory.arena import plan_order
from tvm_ios.memory.footprint import Counting, Footprints
from tvm_ios.memory.options import DEFAULT, SchedulerOptions
from tvm_ios.memory.orders import MemoryOrder
from tvm_ios.memory.problem import memory_problem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
from tvm_ios.program.arena.planner import PlannedMemory
from tvm_ios.progress import Progress


@dataclass(frozen=True, slots=True)
class ScheduledMemory:
    """The order that one scheduler finds, and the memory that it takes.

    Attributes
    ----------
    name
        The name of the scheduler, in :data:`tvm_ios.memory.schedulers.MEMORY_SCHEDULERS`.
    ordered
        The order, with its peak and its bound.
    footprints
        Its memory over time.
    arena
        Its tensors in one block of memory.
    """

    name: str
    ordered: MemoryOrder
    footprints: Footprints
    arena: PlannedMemory


def compare_schedulers(
    graph: OpGraph,
    counting: Counting,
    names: Sequence[str],
    time_limit: float,
    progress: Progress | None = None,
    options: SchedulerOptions = DEFAULT,
) -> tuple[ScheduledMemory, ...]:
    """Run memory schedulers on a graph.

    Parameters
    ----------
    graph
        A graph of operators or units.
    counting
        The same for all.
    names
        The names of the schedulers.
    time_limit
        Seconds of each.
    progress
        Called after each.
    options
        What each scheduler reads of them is its own.
    """
    problem = memory_problem(graph, counting)
    rows: list[ScheduledMemory] = []
    for done, name in enumerate(names, start=1):
        ordered = MEMORY_SCHEDULERS[name](problem, time_limit, options)
        footprints = problem.footprints(ordered.order)
        rows.append(ScheduledMemory(name, ordered, footprints, plan_order(problem, ordered.order)))
        if progress is not None:
            progress("memory schedulers", done, len(names))
    return tuple(rows)


def best_of(rows: Sequence[ScheduledMemory]) -> ScheduledMemory:
    """The row of the smallest arena; of equals that of the smallest peak, then a proven one."""
    return min(rows, key=lambda row: (row.arena.plan.nbytes, row.ordered.peak, -row.ordered.proven))
