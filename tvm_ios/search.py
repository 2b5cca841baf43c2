"""The search: run a policy on a problem, with given costs and within limits."""

from __future__ import annotations

import logging
import math
import time
from contextlib import suppress
from dataclasses import replace

from tvm_ios import interrupts
from tvm_ios.clock import OutOfTimeError
from tvm_ios.costs.costs import Costs, Offer
from tvm_ios.errors import PolicyError, SearchError, UserError
from tvm_ios.ios.memory_front import FrontPoint, descend
from tvm_ios.policies.policy import Found, Limits, Policy, Problem, Request
from tvm_ios.policies.registry import OURS, policy_named
from tvm_ios.policies.sequential import SEQUENTIAL
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.schedule import Schedule

_LOGGER = logging.getLogger(__name__)
#: For each offer that a policy may need, a hint how to get costs that have it.
_SOURCES = {
    Offer.STAGES: "any costs tell that",
    Offer.RTASKS: "give --cost measured, of a Relax module, or the cost of a device",
    Offer.PROGRAMS: "give --cost measured, on this machine's CPU, or of an accelerator such as "
    "stcp920 for graphturbo",
}


def search(
    problem: Problem,
    policy: str | Policy,
    costs: Costs,
    limits: Limits | None = None,
    progress: Progress = silent,
) -> Found:
    """Find a schedule for a problem by a policy.

    Parameters
    ----------
    problem
        The graph of units to schedule, and its blocks.
    policy
        One of :func:`tvm_ios.policies.registry.policy_names`, or one of your own.
    costs
        Estimated or measured execution times on a device.
    limits
        Limits of the search: time, measurements, memory, sizes of stages.
    progress
        Called with (phase, done, total).

    Returns
    -------
    Found
        The schedule, and statistics of its search.

    Raises
    ------
    SearchError
        If the policy is unknown, or needs more than the costs offer, or ignores one of the limits.
    MemoryBudgetError
        If no schedule fits into the memory budget.
    PolicyError
        If the policy raises an unexpected exception.
    """
    return Search(problem, costs, limits or Limits(), progress).find(policy)


class Search:
    """Searches of one problem with the same costs and limits; each policy is searched once.

    ``until`` is when all searches end, by :func:`time.perf_counter`: policies that need costs are
    not searched after it. ``out_of_time`` says whether a time limit has cut a search short.
    """

    def __init__(
        self, problem: Problem, costs: Costs, limits: Limits, progress: Progress = silent
    ) -> None:
        self.problem = problem
        self.costs = costs
        self.limits = limits
        self.until = math.inf
        self.out_of_time = False
        self._progress = progress
        self._results: dict[tuple[str, int | None], Found] = {}
        self._failures: dict[tuple[str, int | None], UserError] = {}
        _LOGGER.info(
            "%d units in %d blocks, by %s", len(problem.units), len(problem.blocks), costs.name
        )

    def find(
        self, policy: str | Policy, memory_budget: int | None = None, *, priced: bool = False
    ) -> Found:
        """Return the result of a policy, given by name or as an object, searched at most once.

        ``memory_budget`` replaces that of the limits. With ``priced``, stages get latencies even if
        the policy needs no costs. Raise as :func:`search` does, or OutOfTimeError if the time was
        over before the policy was searched.
        """
        policy = policy_named(policy) if isinstance(policy, str) else policy
        limits = self._limits(memory_budget)
        require_fit(policy, self.costs, limits)
        key = (policy.name, limits.memory_budget)
        if key in self._failures:
            raise self._failures[key]
        if key not in self._results:
            try:
                self._results[key] = self._search(policy, limits)
            except UserError as error:
                self.out_of_time |= isinstance(error, OutOfTimeError)
                self._failures[key] = error
                raise
        result = self._results[key]
        if not priced or result.schedule.latencies or Offer.PROGRAMS in policy.needs:
            return result
        return replace(result, schedule=self.priced(result.schedule))

    def priced(self, schedule: Schedule) -> Schedule:
        """Return a schedule with the latencies of its stages, unchanged if the costs have none."""
        units, model, measuring = self.problem.units, self.costs.stages, self.costs.measuring
        if measuring is not None:
            # Measure the units first: lanes are divided among groups by the latencies of units.
            measuring.bounds(self._progress)
            latencies = measuring.latencies(units, schedule.stages)
        elif model is not None:
            latencies = (model.stage_latency(units, stage) for stage in schedule.stages)
        else:
            return schedule
        return schedule.with_latencies(tuple(latencies))

    def front(self, policy: str | Policy) -> tuple[FrontPoint, ...]:
        """Return the Pareto front of latency and memory that a policy finds, the fastest first.

        Raise SearchError as :func:`search` does, or if the policy keeps to no memory budget.
        """
        policy = policy_named(policy) if isinstance(policy, str) else policy
        _require_memory_budget(policy)
        require_fit(policy, self.costs, self.limits)
        if policy.front is None:
            return descend(self.problem.units, lambda most: self.find(policy, most).schedule)
        points = policy.front(self._request(policy, self.limits))
        return tuple(replace(p, schedule=self._noted(policy, p.schedule)) for p in points)

    def _limits(self, memory_budget: int | None) -> Limits:
        if memory_budget is None:
            return self.limits
        return replace(self.limits, memory_budget=memory_budget)

    def _search(self, policy: Policy, limits: Limits) -> Found:
        request = self._request(policy, self._in_time(limits))
        # Without units every policy has the same schedule.
        asked = policy if len(self.problem.units) else SEQUENTIAL
        if asked.needs and time.perf_counter() > self.until:
            raise OutOfTimeError(f"{policy.name} is not searched: the time limit had passed")
        try:
            found = asked.find(request)
            completed = found.schedule
            with suppress(OutOfTimeError):
                completed = self.costs.completed(completed)
        except (UserError, OSError):
            raise
        except Exception as error:
            interrupts.raise_if_received()
            _LOGGER.debug("the policy %s failed", policy.name, exc_info=True)
            raise PolicyError.of(policy.name, error) from error
        statistics = found.statistics
        if limits.budget.time_limit is not None and statistics is not None:
            self.out_of_time |= not statistics.complete
        _LOGGER.info("%s: %s", policy.name, _told(found))
        return replace(found, schedule=self._noted(policy, completed))

    def _in_time(self, limits: Limits) -> Limits:
        left, own = max(0.0, self.until - time.perf_counter()), limits.budget.time_limit
        if math.isinf(left):
            return limits
        time_limit = left if own is None else min(own, left)
        return replace(limits, budget=replace(limits.budget, time_limit=time_limit))

    def _request(self, policy: Policy, limits: Limits) -> Request:
        return Request(
            policy.name,
            self.problem,
            self.costs,
            limits,
            self._progress,
            self.find,
            lambda name: self._results.get((name, limits.memory_budget)),
        )

    def _noted(self, policy: Policy, schedule: Schedule) -> Schedule:
        return replace(schedule, policy=policy.name, device=self.costs.device)


def _told(found: Found) -> str:
    """Return a description of a policy's result for the log."""
    schedule, statistics = found.schedule, found.statistics
    text = f"{len(schedule.stages)} stages"
    if schedule.latencies:
        text += f", {schedule.latency * 1e3:.3f} ms expected"
    if schedule.instances is not None:
        text += f", {len(schedule.instances.subgraphs)} sub-graphs split into instances"
    if statistics is not None:
        text += f", found in {statistics.seconds:.2f} s"
        text += "" if statistics.complete else " (ended before the proof)"
    return text


def require_fit(policy: Policy, costs: Costs, limits: Limits) -> None:
    """Require that costs offer what a policy needs and that the policy obeys the limits.

    Raise SearchError otherwise; its sentence names what is missing and where to get it.
    """
    missing = sorted(policy.needs - costs.offers, key=list(Offer).index)
    if missing:
        others = "sequential" if Offer.STAGES in missing else "ios-both"
        raise SearchError(
            f"the policy {policy.name!r} needs to know {missing[0].value}, which the cost "
            f"{costs.name!r} does not say: {_SOURCES[missing[0]]}, or choose {others}"
        )
    if limits.memory_budget is not None:
        _require_memory_budget(policy)


def _require_memory_budget(policy: Policy) -> None:
    if not policy.keeps_memory_budget:
        fitting = [name for name in OURS if policy_named(name).keeps_memory_budget]
        raise SearchError(
            f"the policy {policy.name!r} does not keep to a memory budget: use {', '.join(fitting)}"
        )
