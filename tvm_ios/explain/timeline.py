"""The time of one run, divided into kernels, waits for data, and launching."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from tvm_ios.explain.intervals import Interval, gaps, union
from tvm_ios.program.program import Program, Wait


class TimedLaunch(Protocol):
    """The times of a launch, as :meth:`runtime_ext.execution.session.Session.profile` returns them.

    ``launch`` is its place in its lane, waits not counted; times are seconds since the run began.
    """

    @property
    def lane(self) -> int: ...  # noqa: D102
    @property
    def launch(self) -> int: ...  # noqa: D102
    @property
    def begin(self) -> float: ...  # noqa: D102
    @property
    def end(self) -> float: ...  # noqa: D102
    @property
    def held_up(self) -> float: ...  # noqa: D102
    @property
    def runner(self) -> int: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Step:
    """A launch in one run; times are seconds since the run began."""

    #: The launch's lane, and its place among the lane's launches.
    lane: int
    place: int
    #: The unit that it computes.
    unit: int
    #: When its lane had finished the launch before.
    free: float
    #: When the awaited launches of other lanes had finished too. From ``free`` to here the lane was
    #: idle.
    ready: float
    #: When the kernel ran. From ``ready`` to ``begin`` the lane was notified, and launched it.
    begin: float
    end: float
    #: Seconds of these in which the system ran another thread on the lane's CPU.
    held_up: float
    #: The lane whose thread ran it; another one than ``lane`` only if that was held up.
    runner: int


@dataclass(frozen=True)
class Timeline:
    """The launches of one run, lane by lane in order, and the number of lanes."""

    steps: tuple[Step, ...]
    lanes: int

    @cached_property
    def seconds(self) -> float:
        """Seconds from the start of the run to the end of the last launch."""
        return max((step.end for step in self.steps), default=0.0)

    @cached_property
    def held_up(self) -> float:
        """Seconds, summed over lanes, in which kernels stood still because the CPU ran others."""
        return sum(step.held_up for step in self.steps)

    def instants(self, units: Collection[int]) -> list[Interval]:
        """Return the intervals of time that are attributed to some units.

        These are the intervals in which a lane ran one of their kernels, and those in which no lane
        ran any kernel and one of theirs began next.
        """
        return union(
            [*(self._running(units)), *(gap for unit, gap in self._pauses if unit in units)]
        )

    def busy(self, units: Collection[int]) -> float:
        """Return the seconds in which kernels of some units ran, summed over the lanes."""
        return sum(end - begin for begin, end in self._running(units))

    @cached_property
    def waiting(self) -> tuple[list[Interval], ...]:
        """For each lane the intervals in which it waited for data, or had nothing left to do."""
        waits: list[list[Interval]] = [[] for _ in range(self.lanes)]
        last = [0.0] * self.lanes
        for step in self.steps:
            waits[step.lane].append((step.free, step.ready))
            last[step.lane] = step.end
        return tuple(
            union([*waits_of_lane, (end, self.seconds)])
            for waits_of_lane, end in zip(waits, last, strict=True)
        )

    @cached_property
    def launching(self) -> tuple[list[Interval], ...]:
        """For each lane the intervals in which it launched kernels, or was notified to launch."""
        launching: list[list[Interval]] = [[] for _ in range(self.lanes)]
        for step in self.steps:
            launching[step.lane].append((step.ready, step.begin))
        return tuple(map(union, launching))

    def _running(self, units: Collection[int]) -> list[Interval]:
        return [(step.begin, step.end) for step in self.steps if step.unit in units]

    @cached_property
    def _pauses(self) -> list[tuple[int, Interval]]:
        """The intervals in which no lane ran a kernel, each with the unit that began next."""
        starts = sorted((step.begin, step.unit) for step in self.steps)
        running = union((step.begin, step.end) for step in self.steps)
        pauses: list[tuple[int, Interval]] = []
        place = 0
        for gap in gaps(running, self.seconds):
            while starts[place][0] < gap[1]:
                place += 1
            pauses.append((starts[place][1], gap))
        return pauses


def quietest(runs: Sequence[Timeline], seconds: Callable[[Timeline], float]) -> list[Timeline]:
    """Return the fastest tenth of some runs, but at least three, by ``seconds``.

    Other work on the machine only ever adds time, so the fastest runs are the least disturbed.
    """
    return sorted(runs, key=seconds)[: max(3, len(runs) // 10)]


def read_timeline(program: Program, spans: Iterable[TimedLaunch]) -> Timeline:
    """Return the timeline of a run of a program, from the times of each of its launches."""
    ran = {(span.lane, span.launch): span for span in spans}
    steps: list[Step] = []
    for lane, items in enumerate(program.lanes):
        place, free, ready = 0, 0.0, 0.0
        for item in items:
            if isinstance(item, Wait):
                if item.launches:
                    ready = max(ready, ran[item.lane, item.launches - 1].end)
                continue
            span = ran[lane, place]
            # Clocks of two CPUs may differ a little.
            ready = max(free, min(ready, span.begin))
            runner = lane if span.runner < 0 else span.runner
            steps.append(
                Step(
                    *(lane, place, item.unit, free, ready),
                    *(span.begin, span.end, span.held_up, runner),
                )
            )
            free = ready = span.end
            place += 1
    return Timeline(tuple(steps), len(program.lanes))
