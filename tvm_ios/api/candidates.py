"""The schedules of several policies and their programs, within a memory budget if there is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tvm_ios.contest.verdict import first_with_equal_schedule
from tvm_ios.errors import MemoryBudgetError
from tvm_ios.files.byte_sizes import kib
from tvm_ios.graphturbo.instance_memory import schedule_peak
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
) -> tuple[dict[str, Found], dict[str, str]]:
    """What each policy finds, and why others find nothing within the memory budget.

    Parameters
    ----------
    module
        Builds programs.
    policies
        The policies to try; with a memory budget, ``memory`` is tried too.
    find
        Runs a policy, given its name and the bytes that its schedule may count, or None.
    memory_budget
        Bytes of the largest arena.
    """
    results: dict[str, Found] = {}
    refused: dict[str, str] = {}
    fallback = () if memory_budget is None else ("memory",)
    for policy in dict.fromkeys((*policies, *fallback)):
        if memory_budget is None or not policy_named(policy).keeps_memory_budget:
            results[policy] = find(policy, None)
        else:
            # What needs no search may fit, even if it is counted as more than its program takes.
            first = None if policy_named(policy).needs else find(policy, None)
            try:
                results[policy] = _within(module, partial(find, policy), memory_budget, first)
            except MemoryBudgetError as error:
                refused[policy] = str(error)
    return results, refused


def _within(
    module: MeasuredModule[Any], find: Callable[[int], Found], budget: int, first: Found | None
) -> Found:
    """The fastest schedule found whose program fits; ``first`` was found without a budget.

    A program can need more than the search counts (scratch, lanes that run ahead): the search then
    goes on below what it counted.
    """
    counted = budget
    arenas: list[int] = []
    if first is not None:
        arenas.append(module.build(first.schedule).memory.plan.nbytes)
        if arenas[0] <= budget:
            return first
    while True:
        try:
            result = find(counted)
        except MemoryBudgetError as error:
            if not arenas:
                raise
            built = f"the smallest program that was built {kib(min(arenas))} KiB"
            raise MemoryBudgetError(f"{error}, {built}") from error
        arenas.append(module.build(result.schedule).memory.plan.nbytes)
        if arenas[-1] <= budget:
            return result
        peak = schedule_peak(module.graph, result.schedule, module.problem.operators)
        counted = min(counted, peak) - 1


def build_candidates(
    module: MeasuredModule[Any], schedules: Mapping[str, Schedule], report: Progress
) -> Candidates:
    """Programs of schedules."""
    # Some were found before the units were measured, but all are lowered with the latencies of now.
    lowered = {policy: module.timer.timed(schedule) for policy, schedule in schedules.items()}
    built: dict[str, BuiltModel] = {}
    for done, (policy, first) in enumerate(first_with_equal_schedule(lowered).items()):
        report("building", done, len(schedules))
        built[policy] = built[first] if first in built else module.build(lowered[first])
    report("building", len(schedules), len(schedules))
    return Candidates(lowered, built)


def fitting(
    built: Mapping[str, BuiltModel],
    memory_budget: int | None,
    refused: Mapping[str, str] = MappingProxyType({}),
) -> set[str]:
    """The policies whose programs fit.

    Parameters
    ----------
    built
        Programs by policy.
    memory_budget
        Bytes of the largest arena.
    refused
        Why policies found nothing that fits; of ``memory`` it is said.

    Raises
    ------
    MemoryBudgetError
        If there is none.
    """
    sizes = {policy: model.memory.plan.nbytes for policy, model in built.items()}
    fits = {p for p, size in sizes.items() if memory_budget is None or size <= memory_budget}
    if memory_budget is not None and not fits:
        best = min(sizes, key=lambda policy: sizes[policy])
        raise MemoryBudgetError(
            f"no program fits into {kib(memory_budget)} KiB: the smallest ({best}) takes "
            f"{kib(sizes[best])} KiB between its units, "
            f"{kib(sizes[best] - memory_budget)} KiB more"
            + (f"; {refused['memory']}" if "memory" in refused else "")
        )
    return fits
