"""Find schedules by several policies and build their programs, within a memory budget if given."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tvm_ios import interrupts
from tvm_ios.clock import Clock
from tvm_ios.contest.verdict import first_with_equal_schedule
from tvm_ios.errors import MemoryBudgetError, PolicyError, UserError
from tvm_ios.files.byte_sizes import kib
from tvm_ios.graphturbo.instance_memory import schedule_peak
from tvm_ios.policies.policy import Found
from tvm_ios.policies.registry import policy_named
from tvm_ios.progress import Progress
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.search import require_fit

if TYPE_CHECKING:
    from relay_passes.measured_module import MeasuredModule
    from runtime_ext.execution.built_model import BuiltModel
    from tvm_ios.search import Search

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidates:
    """The built programs and the lowered schedules of policies, by policy.

    Policies with equal schedules share one program; ``unbuilt`` has the reason why a policy has
    none.
    """

    schedules: Mapping[str, Schedule]
    built: Mapping[str, BuiltModel]
    unbuilt: Mapping[str, str] = field(default_factory=dict[str, str])


def find_schedules(
    module: MeasuredModule[Any],
    policies: Sequence[str],
    search: Search,
    memory_budget: int | None,
    *,
    priced: bool = False,
) -> tuple[dict[str, Found], dict[str, str]]:
    """Search a schedule by each policy; return the results, and why other policies have none.

    With a ``memory_budget`` (bytes of the arena) the policy ``memory`` is tried too. ``priced`` is
    passed to :meth:`tvm_ios.search.Search.find`. Raise UserError if a policy does not fit the costs
    or the limits, or ``sequential`` finds nothing.
    """
    results: dict[str, Found] = {}
    refused: dict[str, str] = {}
    fallback = () if memory_budget is None else ("memory",)
    tried = dict.fromkeys((*policies, *fallback))
    require_all_fit(tried, search)
    for policy in tried:
        find = partial(search.find, policy, priced=priced)
        try:
            if memory_budget is None or not policy_named(policy).keeps_memory_budget:
                results[policy] = find()
            else:
                # A schedule that needs no search may fit although the search's count exceeds the
                # budget.
                first = None if policy_named(policy).needs else find()
                results[policy] = _within(module, find, memory_budget, first)
        except UserError as error:
            if policy == "sequential" and not isinstance(error, MemoryBudgetError):
                raise
            refused[policy] = str(error)
    return results, refused


def require_all_fit(policies: Iterable[str], search: Search) -> None:
    """Raise UserError if a policy does not fit the costs or the limits of a search."""
    for policy in policies:
        require_fit(policy_named(policy), search.costs, search.limits)


def _within(
    module: MeasuredModule[Any], find: Callable[[int], Found], budget: int, first: Found | None
) -> Found:
    """Return the fastest schedule found whose program's arena fits into a budget of bytes.

    A program can need more than the search counts (scratch buffers, lanes that run ahead): the
    search is then repeated with a smaller budget. ``first`` is a schedule found without a budget.
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
    module: MeasuredModule[Any],
    schedules: Mapping[str, Schedule],
    report: Progress,
    clock: Clock | None = None,
) -> Candidates:
    """Build the programs of schedules, once for equal ones.

    After the clock's time limit only ``sequential`` and ``given`` are built. A failure to build
    either of these is raised; for other policies it is noted in ``unbuilt``.
    """
    # Some schedules were found before the units were measured; all are lowered with the latencies
    # of now.
    lowered = {policy: module.timer.timed(schedule) for policy, schedule in schedules.items()}
    built: dict[str, BuiltModel] = {}
    unbuilt: dict[str, str] = {}
    for done, (policy, first) in enumerate(first_with_equal_schedule(lowered).items()):
        report("building", done, len(schedules))
        if first in unbuilt:
            unbuilt[policy] = unbuilt[first]
            continue
        try:
            if clock is not None and policy not in ("sequential", "given"):
                clock.require_left("built")
            built[policy] = built[first] if first in built else module.build(lowered[first])
        except Exception as error:
            interrupts.raise_if_received()
            if policy in ("sequential", "given"):
                raise
            _LOGGER.debug("the program of %s cannot be built", policy, exc_info=True)
            told = error if isinstance(error, UserError) else PolicyError.of(policy, error)
            unbuilt[policy] = str(told)
    report("building", len(schedules), len(schedules))
    return Candidates({policy: lowered[policy] for policy in built}, built, unbuilt)


def fitting(
    built: Mapping[str, BuiltModel],
    memory_budget: int | None,
    refused: Mapping[str, str] = MappingProxyType({}),
) -> set[str]:
    """Return the policies whose programs' arenas fit into a budget of bytes (None: all).

    Raise MemoryBudgetError if none fits; ``refused["memory"]`` then completes its message.
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
