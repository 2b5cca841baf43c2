"""Times of rPrograms for Rammer's policy, measured as long as a budget lasts, then simulated."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from tvm_ios.ios.lazy import Budget
from tvm_ios.rammer.rprogram import RProgram, simulate

#: Called with the number of rPrograms measured.
Report = Callable[[int], None]


class RProgramProfile:
    """A profiler of rPrograms that measures all programs of one call, or simulates all of them.

    ``measure`` yields the seconds of rPrograms in their order, until the budget is spent.
    ``report`` is called with the number of measurements. Programs that ``can_run`` rejects take
    infinitely long.
    """

    def __init__(
        self,
        measure: Callable[[Iterable[RProgram]], Iterator[float]],
        budget: Budget,
        report: Report,
        can_run: Callable[[RProgram], bool] = lambda _: True,
    ) -> None:
        self._can_run = can_run
        self.complete = True
        self._measure = measure
        self._budget = budget
        self._report = report
        self._begin = time.perf_counter()
        #: Programs and their seconds by identity: the growing program is looked up again and again.
        self._measured: dict[int, tuple[RProgram, float]] = {}

    @property
    def measured(self) -> int:
        """The number of different rPrograms that were measured or found in the log."""
        return len(self._measured)

    @property
    def seconds(self) -> float:
        """Seconds since the profile began."""
        return time.perf_counter() - self._begin

    def __call__(self, programs: Sequence[RProgram]) -> tuple[float, ...]:
        """Return the seconds of rPrograms that are to be compared with each other."""
        new = [program for program in programs if id(program) not in self._measured]
        most, limit = self._budget.max_measurements, self._budget.time_limit
        if new and (
            (most is not None and self.measured + len(new) > most)
            or (limit is not None and self.seconds >= limit)
        ):
            self.complete = False
            simulated = zip(programs, simulate(programs), strict=True)
            return tuple(s if self._can_run(program) else math.inf for program, s in simulated)
        able = [program for program in new if self._can_run(program)]
        for program, seconds in zip(able, self._measure(able), strict=True):
            self._keep(program, seconds)
        for program in new:
            if id(program) not in self._measured:
                self._keep(program, math.inf)
        return tuple(self._measured[id(program)][1] for program in programs)

    def _keep(self, program: RProgram, seconds: float) -> None:
        self._measured[id(program)] = program, seconds
        self._report(self.measured)
