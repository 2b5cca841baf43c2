"""The schedules of several policies and their programs, within a memory budget if there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tvm_ios.contest.verdict import first_with_equal_schedule
from tvm_ios.files.byte_sizes import kib
from tvm_ios.ios.stage_memory import MemoryBudgetError, stages_peak
from tvm_ios.ios.strategies import POLICIES as SEARCHING
from tvm_ios.progress import Progress
from tvm_ios.schedule.schedule import Schedule

if TYPE_CHECKING:
    from relay_passes.module_search import ModuleSearch
    from runtime_ext.execution.built_model import BuiltModel

#: What a search took.
Took = TypeVar("Took")


@dataclass(frozen=True)
class Candidates:
    """Programs of all policies, and their schedules as they were lowered.

    Policies of equal schedules share one.
    """

    schedules: Mapping[str, Schedule]
    built: Mapping[str, BuiltModel]


def find_schedules(
    search: ModuleSearch,
    policies: Sequence[str],
    find: Callable[[str, int | None], tuple[Schedule, Took | None]],
    memory_budget: int | None,
) -> tuple[dict[str, Schedule], list[Took]]:
    """A schedule for each policy that has one within the memory budget, and what searches took.

    Parameters
    ----------
    search
        Builds programs.
    policies
        To try; with a memory budget, ``memory`` too.
    find
        The schedule of a policy whose counted bytes are within a limit.
    memory_budget
        Bytes of the largest arena.
    """
    schedules: dict[str, Schedule] = {}
    took: list[Took] = []
    fallback = () if memory_budget is None else ("memory",)
    for policy in dict.fromkeys((*policies, *fallback)):
        if memory_budget is not None and policy in SEARCHING:
            found = _within(search, partial(find, policy), memory_budget)
            if found is None:
                continue
        else:
            found = find(policy, None)
        schedules[policy], statistics = found
        if statistics is not None:
            took.append(statistics)
    return schedules, took


def _within(
    search: ModuleSearch,
    find: Callable[[int], tuple[Schedule, Took | None]],
    budget: int,
) -> tuple[Schedule, Took | None] | None:
    """The fastest schedule found whose program fits, or None.

    A program can need more than the search counts (scratch, lanes that run ahead): the search then
    goes on below what it counted.
    """
    counted = budget
    while True:
        try:
            made, took = find(counted)
        except MemoryBudgetError:
            return None
        if search.build(made).memory.plan.nbytes <= budget:
            return made, took
        counted = min(counted, stages_peak(search.prepared.units, made.stages)) - 1


def build_candidates(
    search: ModuleSearch, schedules: Mapping[str, Schedule], report: Progress
) -> Candidates:
    """Programs of schedules."""
    # Some were found before the units were measured, but all are lowered with what is known now.
    lowered = {policy: search.timer.timed(schedule) for policy, schedule in schedules.items()}
    built: dict[str, BuiltModel] = {}
    for done, (policy, twin) in enumerate(first_with_equal_schedule(lowered).items()):
        report("building", done, len(schedules))
        built[policy] = built[twin] if twin in built else search.build(lowered[twin])
    report("building", len(schedules), len(schedules))
    return Candidates(lowered, built)


def fitting(built: Mapping[str, BuiltModel], memory_budget: int | None) -> set[str]:
    """The policies whose programs fit.

    Raises
    ------
    MemoryBudgetError
        If there is none.
    """
    sizes = {policy: made.memory.plan.nbytes for policy, made in built.items()}
    found = {p for p, size in sizes.items() if memory_budget is None or size <= memory_budget}
    if memory_budget is not None and not found:
        best = min(sizes, key=lambda policy: sizes[policy])
        raise MemoryBudgetError(
            f"no program fits into {kib(memory_budget)} KiB: the smallest ({best}) takes "
            f"{kib(sizes[best])} KiB between its units, "
            f"{kib(sizes[best] - memory_budget)} KiB more"
        )
    return found
