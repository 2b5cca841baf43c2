"""The policy ``graphturbo``: units run as instances, of the split that is measured the fastest.

What an instance gains is that its tensors are still in the cache of its lane, which no stage
measured alone would show: whole programs are built, and run in turn.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tvm_ios.clock import OutOfTimeError
from tvm_ios.contest import rules
from tvm_ios.contest.rules import Rules
from tvm_ios.contest.verdict import kept_policy
from tvm_ios.costs.costs import Offer, ProgramCosts
from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graphturbo.policy import choose_instances, schedule_on_lanes
from tvm_ios.graphturbo.worth import lane_capacities
from tvm_ios.ios.statistics import SearchStatistics
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.schedule.schedule import Schedule

#: Bytes that hold any instance: then each lane runs its part of the batch from start to end.
_EVERYTHING = 1 << 60


def find(request: Request) -> Found:
    """The fastest split into instances; the sequential schedule where nothing can be split."""
    watch = Watch(request.limits.budget.time_limit)
    programs = Programs(request)
    splits = _splits(request, programs, watch)
    if not splits:
        answer = programs.answer(request.found("sequential").schedule, splits, watch)
        return replace(answer, why_not="no split into instances is expected to gain")
    return programs.answer(programs.fastest(splits), splits, watch)


GRAPHTURBO = Policy(
    "graphturbo",
    "sub-graphs split into instances that stay in a lane's cache",
    find,
    needs=frozenset({Offer.PROGRAMS}),
)


class Programs:
    """The programs of schedules that a policy compares.

    Parameters
    ----------
    request
        What the policy is asked, with costs that build and time whole programs.
    """

    def __init__(self, request: Request) -> None:
        assert request.costs.programs is not None, "the policy needs them"
        self.costs: ProgramCosts = request.costs.programs
        self._request = request
        self._refused: dict[Schedule, str] = {}

    def builds(self, schedule: Schedule) -> bool:
        """Whether there is a program of a schedule; if not, why is reported."""
        refusal = self.costs.refusal(self.timed(schedule))
        if refusal:
            self._refused[schedule.content] = refusal
        return not refusal

    def timed(self, schedule: Schedule) -> Schedule:
        """As it is lowered: with the latencies of its units, which decide about lanes."""
        return self._request.costs.completed(schedule)

    def fastest(self, schedules: Sequence[Schedule]) -> Schedule:
        """The fastest; but the sequential one, if it competes, unless the interval is below one."""
        different: dict[Schedule, Schedule] = {}
        for schedule in map(self.timed, schedules):
            different.setdefault(schedule.content, schedule)
        if len(different) == 1:
            return next(iter(different.values()))
        plain = self.timed(self._request.found("sequential").schedule).content
        named = {
            "sequential" if content == plain else str(number): schedule
            for number, (content, schedule) in enumerate(different.items())
        }
        samples = self._contest(named, rules.CHOICE)
        best = min(samples, key=lambda name: statistics.median(samples[name]))
        if "sequential" in samples and best != "sequential":
            pair = {name: named[name] for name in (best, "sequential")}
            best, _ = kept_policy(best, [self._contest(pair, rules.SECOND_CHOICE)])
        return named[best]

    def answer(self, best: Schedule, tried: Sequence[Schedule], watch: Watch) -> Found:
        """What the policy found by comparing the programs of some schedules."""
        counted = SearchStatistics(
            seconds=watch.seconds,
            candidates=len(tried),
            complete=watch.complete,
            blocks=len(self._request.problem.blocks),
        )
        return Found(best, counted, tuple(self._refused.values()), tuple(tried))

    def _contest(
        self, schedules: Mapping[str, Schedule], limits: Rules
    ) -> Mapping[str, Sequence[float]]:
        what = f"{self._request.policy}: comparing programs"
        return self.costs.contest(
            schedules, limits, lambda done: self._request.progress(what, done, limits.rounds)
        )


class Watch:
    """The time of a search.

    Parameters
    ----------
    limit
        Seconds, or None.

    Attributes
    ----------
    complete
        False once something was left out because the limit had passed.
    """

    def __init__(self, limit: float | None) -> None:
        self.complete = True
        self._limit = limit
        self._begin = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the search began."""
        return time.perf_counter() - self._begin

    def spent(self) -> bool:
        """Whether the limit has passed; what is left out then makes the search incomplete."""
        if self._limit is not None and self.seconds > self._limit:
            self.complete = False
        return not self.complete


class _Split(NamedTuple):
    """How :func:`choose_instances` is asked to split."""

    capacity: int | None
    axes: tuple[int, ...]
    least_factor: int
    device: MemoryHierarchy | None


def _splits(request: Request, programs: Programs, watch: Watch) -> list[Schedule]:
    """Schedules with instances, each of another split.

    What a model of the caches predicts to be best, rows of images included, and of the batch all
    splits into instances of some sizes, whatever it predicts.
    """
    lanes, hierarchy = programs.costs.lanes, programs.costs.hierarchy
    predicted = _Split(None, (0, 2), 1, hierarchy)
    batch = request.problem.units.batch
    sizes = (*lane_capacities(hierarchy)[::2], _EVERYTHING) if batch > 1 else ()
    measured = [
        _Split(size, (0,), least, None) for least in dict.fromkeys((lanes, 1)) for size in sizes
    ]
    schedules: dict[Schedule, None] = {}
    for split in (predicted, *measured):
        if watch.spent():
            break
        try:
            schedule = _split_schedule(request, split, lanes, watch)
        except OutOfTimeError:
            break
        if schedule.instances is not None and programs.builds(schedule):
            schedules[schedule] = None
    return list(schedules)


def _split_schedule(request: Request, split: _Split, lanes: int, watch: Watch) -> Schedule:
    def report(done: int, total: int) -> bool:
        request.progress(f"{request.policy}: splitting", done, total)
        return not watch.spent()

    operators, units = request.problem.operators, request.problem.units
    assert operators is not None, "what builds programs knows the operators"
    instances = choose_instances(
        operators,
        units,
        lanes=lanes,
        capacity=split.capacity,
        axes=split.axes,
        least_factor=split.least_factor,
        device=split.device,
        report=report,
    )
    return schedule_on_lanes(units, instances, lanes)
