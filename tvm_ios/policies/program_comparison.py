"""Building and timing of the programs of several schedules, within the time limit of a search."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence

from tvm_ios.contest import rules
from tvm_ios.contest.rules import Rules
from tvm_ios.contest.verdict import kept_policy
from tvm_ios.ios.statistics import SearchStatistics
from tvm_ios.policies.policy import Found, Request
from tvm_ios.schedule.schedule import Schedule


class ProgramComparison:
    """A comparison of schedules by their programs, which are built and timed in turn.

    Raise LookupError if the costs of the request build no programs.
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

    def answer(self, best: Schedule, tried: Sequence[Schedule], deadline: Deadline) -> Found:
        """Return a policy's result: the best schedule, statistics, and the schedules it tried."""
        counted = SearchStatistics(
            seconds=deadline.seconds,
            candidates=len(tried),
            complete=deadline.complete,
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


class Deadline:
    """A stopwatch that starts with a search, and its limit in seconds or None.

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
