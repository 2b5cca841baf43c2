"""The policy ``graphturbo``: of several splits of sub-graphs into instances, the fastest measured.

An instance is a part of a batch or of an image that runs through a sub-graph by itself. It gains
because its tensors are still in the cache of its lane, which no stage measured alone would show:
whole programs are built and timed in turn.
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
from tvm_ios.costs.costs import Offer
from tvm_ios.devices.memory_hierarchy import MemoryHierarchy
from tvm_ios.graphturbo.policy import choose_instances, schedule_on_lanes
from tvm_ios.graphturbo.worth import lane_capacities
from tvm_ios.ios.statistics import SearchStatistics
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.schedule.schedule import Schedule

#: A capacity that fits any instance: then each lane runs its part of the batch from start to end.
_EVERYTHING = 1 << 60


def find(request: Request) -> Found:
    """Return the fastest split into instances, or the sequential schedule if none can gain."""
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
    """The programs of the schedules that a policy builds and times to compare them.

    The costs of the request must be able to build and time whole programs.
    """

    def __init__(self, request: Request) -> None:
        self.costs = request.programs
        self._request = request
        self._refused: dict[Schedule, str] = {}

    def builds(self, schedule: Schedule) -> bool:
        """Return whether the program of a schedule can be built; if not, note the reason."""
        refusal = self.costs.refusal(self.timed(schedule))
        if refusal:
            self._refused[schedule.content] = refusal
        return not refusal

    def timed(self, schedule: Schedule) -> Schedule:
        """Return a schedule with the latencies of its units, by which lowering assigns lanes."""
        return self._request.costs.completed(schedule)

    def fastest(self, schedules: Sequence[Schedule]) -> Schedule:
        """Return the schedule whose program is the fastest, by timing all programs in turn.

        If the sequential schedule is among them, another one is returned only if a second contest
        shows with confidence that it is faster.
        """
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
        """Return a policy's result: the best schedule, statistics, and the schedules it tried."""
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
    """A stopwatch of a search, with a limit in seconds or None.

    ``complete`` turns False once something was left out because the limit had passed.
    """

    def __init__(self, limit: float | None) -> None:
        self.complete = True
        self._limit = limit
        self._begin = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Seconds since the search began."""
        return time.perf_counter() - self._begin

    def spent(self) -> bool:
        """Return whether the limit has passed; if so, mark the search as incomplete."""
        if self._limit is not None and self.seconds > self._limit:
            self.complete = False
        return not self.complete


class _Split(NamedTuple):
    """Arguments of :func:`choose_instances` that say how sub-graphs are split."""

    capacity: int | None
    axes: tuple[int, ...]
    least_factor: int
    device: MemoryHierarchy | None


def _splits(request: Request, programs: Programs, watch: Watch) -> list[Schedule]:
    """Return schedules with instances that can be built, each by another way to split.

    The first is the best one by a model of the caches, which may split rows of images too. The
    others split the batch so that instances fit into caches of several sizes, whatever the model
    predicts.
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
