"""A guard for limited searches: their result must not be slower than greedy or a smaller search."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from tvm_ios.ios.stage_memory import stages_peak
from tvm_ios.ios.statistics import SearchStatistics
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.mixing import Candidate, mix
from tvm_ios.policies.policy import Found, Request
from tvm_ios.schedule.schedule import Schedule

#: Relative differences up to this are ties: sums of latencies differ so by rounding.
_TIE = 1e-12


def no_slower(
    request: Request, schedule: Schedule, statistics: SearchStatistics, included: Sequence[Found]
) -> tuple[Schedule, SearchStatistics]:
    """Return the fastest mix of a found schedule, the greedy one, and those of included policies.

    Schedules are mixed wherever two of them have run the same units. The greedy stages of a block
    are in every search that has concurrent groups, but those of the whole graph may cross the
    borders of blocks. Policies whose schedules are among those of this search (``included``) can be
    faster if its time or its measurements ended early; their known results are used, and no search
    is made. Stages that were not measured have optimistic costs; those that the best mix needs are
    measured as far as the budget lasts.
    """
    graph, limits = request.problem.units, request.limits
    begin = time.perf_counter()
    known = dict(zip(schedule.stages, schedule.latencies, strict=True))
    rivals = [greedy_schedule(graph)]
    for found in included:
        rivals.append(found.schedule.content)
        known |= zip(found.schedule.stages, found.schedule.latencies, strict=True)
    if limits.memory_budget is not None:
        rivals = [
            each for each in rivals if stages_peak(graph, each.stages) <= limits.memory_budget
        ]
    measuring = request.costs.measuring
    model = request.stages if measuring is None else measuring.bounds(request.progress)
    estimates = {
        stage: model.stage_latency(graph, stage)
        for each in rivals
        for stage in each.stages
        if stage not in known
    }
    measured = statistics.stages_measured or 0
    while True:
        seconds = {**estimates, **known}
        mixed = mix(
            graph,
            [
                Candidate(each, tuple(seconds[stage] for stage in each.stages))
                for each in (schedule, *rivals)
            ],
            schedule.policy,
        )
        latencies = tuple(seconds[stage] for stage in mixed.stages)
        if sum(latencies) >= schedule.latency * (1 - max(_TIE, limits.budget.gap)):
            break
        unknown = [stage for stage in mixed.stages if stage not in known]
        if not unknown:
            schedule = mixed.with_latencies(latencies)
            break
        if measuring is None:
            known |= {stage: estimates[stage] for stage in unknown}
            continue
        affordable = (
            stage
            for number, stage in enumerate(unknown, measured)
            if not limits.budget.is_spent(number, statistics.seconds + time.perf_counter() - begin)
        )
        known |= dict.fromkeys(unknown, math.inf)
        measured_now = dict(zip(unknown, measuring.latencies(graph, affordable), strict=False))
        measured += len(measured_now)
        known |= measured_now
    if measuring is not None:
        statistics = replace(statistics, stages_measured=measured)
    seconds_in_all = statistics.seconds + time.perf_counter() - begin
    return schedule, replace(statistics, seconds=seconds_in_all)


def fastest(found: Sequence[Found]) -> tuple[Schedule, SearchStatistics]:
    """Return the fastest of known results, with statistics of a search that found nothing."""
    best = min(found, key=lambda each: each.schedule.latency)
    return best.schedule.content, SearchStatistics(seconds=0.0, complete=False)
