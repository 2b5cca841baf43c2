"""The schedules of several policies and their programs, within a memory budget if there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tvm_ios.contest.verdict import first_with_equal_schedule
from tvm_ios.errors import MemoryBudgetError
from tvm_ios.files.byte_sizes import kib
from tvm_ios.ios.stage_memory import stages_peak
from tvm_ios.policies.policy import Found
from tvm_ios.policies.registry import policy_named
from tvm_ios.progress import Progress
from tvm_ios.schedule.schedule import Schedule

if TYPE_CHECKING:
    from relay_passes.measured_module import MeasuredModule
    from runtime_ext.execution.built_model import BuiltModel


@dataclass(frozen=True)
class Candidates:
    """Programs of all policies, and their schedules as they were lowered.

    Policies of equal schedules share one.
    """

    schedules: Mapping[str, Schedule]
    built: Mapping[str, BuiltModel]


def find_schedules(
    module: MeasuredModule[Any],
    policies: Sequence[str],
    find: Callable[[str, int | None], Found],
    memory_budget: int | None,
) -> dict[str, Found]:
    """What each policy finds that has a schedule within the memory budget.

    Parameters
    ----------
    module
        Builds programs.
    policies
        To try; with a memory budget, ``memory`` too.
    find
        What a policy finds whose counted bytes are within a limit.
    memory_budget
        Bytes of the largest arena.
    """
    found: dict[str, Found] = {}
    fallback = () if memory_budget is None else ("memory",)
    for policy in dict.fromkeys((*policies, *fallback)):
        if memory_budget is None or not policy_named(policy).keeps_memory_budget:
            found[policy] = find(policy, None)
        elif (within := _within(module, partial(find, policy), memory_budget)) is not None:
            found[policy] = within
    return found


def _within(module: MeasuredModule[Any], find: Callable[[int], Found], budget: int) -> Found | None:
    """The fastest schedule found whose program fits, or None.

    A program can need more than the search counts (scratch, lanes that run ahead): the search then
    goes on below what it counted.
    """
    counted = budget
    while True:
        try:
            found = find(counted)
        except MemoryBudgetError:
            return None
        if module.build(found.schedule).memory.plan.nbytes <= budget:
            return found
        counted = min(counted, stages_peak(module.graph, found.schedule.stages)) - 1


def build_candidates(
    module: MeasuredModule[Any], schedules: Mapping[str, Schedule], report: Progress
) -> Candidates:
    """Programs of schedules."""
    # Some were found before the units were measured, but all are lowered with what is known now.
    lowered = {policy: module.timer.timed(schedule) for policy, schedule in schedules.items()}
    built: dict[str, BuiltModel] = {}
    for done, (policy, twin) in enumerate(first_with_equal_schedule(lowered).items()):
        report("building", done, len(schedules))
        built[policy] = built[twin] if twin in built else module.build(lowered[twin])
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
