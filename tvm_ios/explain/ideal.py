"""Lower bounds for any schedule of given kernels on several lanes, from their times on one lane.

The bounds hold as long as a kernel's work costs on several lanes at least as much as on one.
Caches break that: each core brings one of its own, so that data which one core's cache cannot hold
may fit into those of two. The kernels of ``lstm_tc``, whose weights are read again in every step,
take 8 % less time on two lanes than on one, and schedules stay 8 % below the bound
(``benchmarks/results/vdevice.json``).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.explain.tasks import Work
from tvm_ios.program.program import Launch, Program


class OneLaneError(ValueError):
    """Raised for a program not lowered to one lane, or times that do not fit its launches."""


@dataclass(frozen=True, slots=True)
class Ideal:
    """Two lower bounds on the seconds of a run, whatever the schedule, if lanes gain no cache."""

    #: The longest chain of kernels that need each other, each spread over all lanes (or as many as
    #: it has rTasks) without loss.
    critical_path: float
    #: The time of all kernels on one lane, shared evenly.
    work_over_lanes: float

    @property
    def seconds(self) -> float:
        """The larger of the two bounds."""
        return max(self.critical_path, self.work_over_lanes)


def ideal(work: Work, seconds: Sequence[float], lanes: int) -> Ideal:
    """Return the bounds for ``lanes`` lanes from the times of the tasks on one lane.

    ``work`` is of the program lowered to one lane, ``seconds`` has the time of each of its tasks
    (:func:`one_lane_seconds`). Raise OneLaneError if the program has several lanes.
    """
    launches = _launches(work.program)
    longest: list[float] = []
    for number, task in enumerate(work.tasks):
        tiles = sum(launches[place].end - launches[place].begin for _, place in task.launches)
        before = max((longest[need] for need in task.needs), default=0.0)
        longest.append(before + seconds[number] / max(1, min(lanes, tiles)))
    return Ideal(max(longest, default=0.0), sum(seconds) / lanes)


def one_lane_seconds(work: Work, runs: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return for each task of a program of one lane the median over runs of its seconds.

    Each run has the seconds of every launch, in the lane's order. Raise OneLaneError if the program
    has several lanes, or a run another number of launches.
    """
    count = len(_launches(work.program))
    if not runs or any(len(run) != count for run in runs):
        raise OneLaneError(f"every run must time the program's {count} launches")
    medians = [statistics.median(run[place] for run in runs) for place in range(count)]
    return tuple(sum(medians[place] for _, place in task.launches) for task in work.tasks)


def _launches(program: Program) -> list[Launch]:
    if len(program.lanes) != 1:
        raise OneLaneError(f"the program has {len(program.lanes)} lanes instead of one")
    return [item for item in program.lanes[0] if isinstance(item, Launch)]
