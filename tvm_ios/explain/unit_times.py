"""The time that each unit of a program takes."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.explain.intervals import Interval, length, union
from tvm_ios.explain.timeline import Timeline


@dataclass(frozen=True, slots=True)
class UnitTime:
    """The time of a unit's kernels.

    ``seconds`` counts the time in which at least one lane ran one of them, ``lane_seconds`` is the
    sum over the lanes.
    """

    seconds: float
    lane_seconds: float


def unit_times(units: int, runs: Sequence[Timeline]) -> tuple[UnitTime, ...]:
    """Return the time of each unit: medians over the tenth of the runs in which it was fastest.

    At least three runs are taken, if there are as many. A unit without kernels takes no time.
    """
    samples: list[list[UnitTime]] = [[] for _ in range(units)]
    for run in runs:
        spans: dict[int, list[Interval]] = defaultdict(list)
        for step in run.steps:
            spans[step.unit].append((step.begin, step.end))
        for unit, intervals in spans.items():
            lane_seconds = sum(end - begin for begin, end in intervals)
            samples[unit].append(UnitTime(length(union(intervals)), lane_seconds))
    return tuple(map(_typical, samples))


def _typical(samples: Sequence[UnitTime]) -> UnitTime:
    if not samples:
        return UnitTime(0.0, 0.0)
    # Other work on the machine only ever adds time.
    best = sorted(samples, key=lambda sample: sample.seconds)[: max(3, len(samples) // 10)]
    return UnitTime(
        statistics.median(sample.seconds for sample in best),
        statistics.median(sample.lane_seconds for sample in best),
    )
