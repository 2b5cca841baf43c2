"""The order of a schedule's stages with the smallest peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.units import form_units
from tvm_ios.memory.orders import MemoryOrder
from tvm_ios.memory.problem import MemoryProblem, memory_problem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
from tvm_ios.schedule.stage import Stage


def stage_problem(graph: OpGraph, stages: Sequence[Stage]) -> tuple[MemoryProblem, tuple[int, ...]]:
    """Stages as operators: what is to be ordered, and the place of each in ``stages``.

    Counted are the tensors between units, as in the arena of a program: inputs and outputs of the
    graph are not. All that a stage's units make counts while it runs.

    Parameters
    ----------
    graph
        The graph of units.
    stages
        The stages, in which each unit stands once.
    """
    staged = form_units(graph, lambda _: [stage.units for stage in stages])
    place = {unit: number for number, stage in enumerate(stages) for unit in stage.units}
    scratch: dict[int, int] = {}
    for number, stage in enumerate(staged.operators):
        outputs = [t for unit in stage.members for t in graph.operators[unit].outputs]
        seen = {staged.tensors[t].name for t in stage.outputs}
        scratch[number] = sum(
            graph.tensors[t].nbytes for t in outputs if graph.tensors[t].name not in seen
        )
    problem = memory_problem(staged, scratch=scratch)
    buffers = tuple(
        replace(buffer, nbytes=0) if buffer.at_start or buffer.at_end else buffer
        for buffer in problem.memory.buffers
    )
    problem = replace(problem, memory=replace(problem.memory, buffers=buffers))
    return problem, tuple(place[stage.members[0]] for stage in staged.operators)


def order_stages(
    graph: OpGraph,
    stages: Sequence[Stage],
    scheduler: str = "optimal",
    time_limit: float = 30.0,
) -> MemoryOrder:
    """Find the order of stages with the smallest peak, as counted in :func:`stage_problem`.

    Parameters
    ----------
    graph, stages
        As in :func:`stage_problem`.
    scheduler
        One of :data:`tvm_ios.memory.schedulers.MEMORY_SCHEDULERS`.
    time_limit
        Seconds.

    Returns
    -------
    MemoryOrder
        An order of places in ``stages``. It is the order that they have if no better one is found.
    """
    problem, place = stage_problem(graph, stages)
    best = MEMORY_SCHEDULERS[scheduler](problem, time_limit)
    number = {where: operator for operator, where in enumerate(place)}
    present = problem.footprints([number[where] for where in range(len(stages))]).peak
    if present <= best.peak:
        order = tuple(range(len(stages)))
        return replace(best, order=order, peak=present, proven=present == best.bound)
    return replace(best, order=tuple(place[operator] for operator in best.order))
