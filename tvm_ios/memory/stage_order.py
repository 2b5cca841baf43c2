"""The order of a schedule's stages with the smallest peak memory."""

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
    """Return the memory problem of stages as operators, and each operator's place in ``stages``.

    Only tensors between units count, as in the arena of a program: inputs and outputs of the graph
    do not. All results of a stage's units count while it runs.
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
    graph: OpGraph, stages: Sequence[Stage], scheduler: str = "optimal", time_limit: float = 30.0
) -> MemoryOrder:
    """Return the order of stages with the smallest peak, as places in ``stages``.

    Bytes are counted as in :func:`stage_problem`. Return the present order if no better one is
    found.
    """
    problem, place = stage_problem(graph, stages)
    best = MEMORY_SCHEDULERS[scheduler](problem, time_limit)
    number = {where: operator for operator, where in enumerate(place)}
    present = problem.footprints([number[where] for where in range(len(stages))]).peak
    if present <= best.peak:
        order = tuple(range(len(stages)))
        return replace(best, order=order, peak=present, proven=present == best.bound)
    return replace(best, order=tuple(place[operator] for operator in best.order))
