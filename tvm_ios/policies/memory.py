"""The policy ``memory``: units one after another, in the order that needs the least peak memory.

Where no order fits into a memory budget, sub-graphs run instance by instance, so that large tensors
are made in parts, one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm_ios.errors import MemoryBudgetError
from tvm_ios.files.byte_sizes import kib
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graphturbo.memory_splits import MemorySplit, MemorySplits
from tvm_ios.ios.memory_front import FrontPoint
from tvm_ios.ios.stage_memory import stages_peak
from tvm_ios.memory.stage_order import order_stages
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.policies.program_comparison import Deadline, ProgramComparison
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import sequential_stages

#: Seconds for splits, unless the search has a limit of its own.
_SECONDS = 60.0
#: Steps to try after the first split that fits: lanes that run instances of their own need more
#: memory than lanes that share one, and may fit later.
_FURTHER_STEPS = 3


def memory_schedule(graph: OpGraph) -> Schedule:
    """Return the schedule of one unit a stage in the order of least peak memory."""
    stages = sequential_stages(graph)
    order = order_stages(graph, stages).order
    ordered = tuple(stages[place] for place in order)
    return Schedule(graph.fingerprint, ordered, policy="memory", batch=graph.batch)


def find(request: Request) -> Found:
    """Return the schedule of least peak memory, or the fastest split that fits into the budget.

    Raise MemoryBudgetError, which names the smallest split tried, if nothing fits.
    """
    schedule, budget = memory_schedule(request.problem.units), request.limits.memory_budget
    if budget is None or (peak := stages_peak(request.problem.units, schedule.stages)) <= budget:
        return Found(schedule)
    lacking = (
        f"nothing fits into the memory budget: the best order of {request.problem.units.name} "
        f"needs {kib(peak)} KiB between its units"
    )
    if request.problem.operators is None:
        raise MemoryBudgetError(lacking)
    return _split(request, budget, lacking)


def _split(request: Request, budget: int, lacking: str) -> Found:
    costs, problem = request.costs.programs, request.problem
    assert problem.operators is not None
    splits = MemorySplits(problem.operators, problem.units, 1 if costs is None else costs.lanes)
    deadline = Deadline(request.limits.budget.time_limit or _SECONDS)
    tried: list[MemorySplit] = []
    left = _FURTHER_STEPS
    for number, step in enumerate(splits.steps()):
        request.progress("memory: splitting", number, splits.step_count)
        tried += step
        left -= any(split.peak <= budget for split in tried)
        if not left or deadline.spent():
            break
    request.progress("memory: splitting", splits.step_count, splits.step_count)
    fitting = sorted((s for s in tried if s.peak <= budget), key=lambda split: split.time)
    if costs is None and fitting:
        return Found(fitting[0].schedule)
    if costs is not None:
        programs = ProgramComparison(request)
        best = [
            schedule
            for own in (True, False)
            if (schedule := _first_built(programs, fitting, own)) is not None
        ]
        if best:
            return programs.answer(programs.fastest(best), best, deadline)
    if not tried:
        raise MemoryBudgetError(f"{lacking}, and no part of it can run in instances")
    smallest = min(tried, key=lambda split: split.peak)
    raise MemoryBudgetError(
        f"{lacking}, the smallest of {len(tried)} splits into instances ({smallest}) "
        f"{kib(smallest.peak)} KiB"
    )


def _first_built(
    programs: ProgramComparison, splits: Sequence[MemorySplit], own: bool
) -> Schedule | None:
    """Return the first split whose program can be built, or None.

    With ``own``, only splits whose instances run on lanes of their own; else only the others.
    """
    schedules = (split.schedule for split in splits if split.on_lanes == own)
    return next((schedule for schedule in schedules if programs.builds(schedule)), None)


def _front(request: Request) -> tuple[FrontPoint, ...]:
    """Return only the order of least memory: the time of a split is unknown until it is built."""
    schedule = find(replace(request, limits=replace(request.limits, memory_budget=None))).schedule
    return (FrontPoint(schedule, stages_peak(request.problem.units, schedule.stages)),)


MEMORY = Policy(
    "memory",
    "one unit after another in the order of least memory, in instances if a budget asks for it",
    find,
    keeps_memory_budget=True,
    front=_front,
    tried=False,
)
