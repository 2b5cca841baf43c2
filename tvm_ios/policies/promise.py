"""Bounds on the gain of a schedule over the sequential one, before its program is built."""

from __future__ import annotations

from tvm_ios.costs.costs import Costs
from tvm_ios.policies.policy import Problem, Request
from tvm_ios.progress import Progress, silent
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages

#: Smaller gains would be printed as 0.0 %.
_SHOWN = 5e-4


def most_to_gain(request: Request) -> float | None:
    """Return an upper bound on the part of the sequential time that concurrent units save.

    Whatever runs where, no unit ends before those that it reads from, each at its best on all
    lanes, and lanes do no less work than that of each unit on one of them. Both hold for the usual
    kernels of units, and for units as they are: merged ones are others. Return None if units are
    not measured.
    """
    measuring, graph = request.costs.measuring, request.problem.units
    if measuring is None or not len(graph):
        return None
    bounds = measuring.bounds(request.progress)
    alone = sum(bounds.stage_latency(graph, stage) for stage in sequential_stages(graph))
    at_once = Stage(Strategy.STREAMS, tuple((unit,) for unit in range(len(graph))))
    return 1 - bounds.stage_latency(graph, at_once) / alone


def too_little(request: Request) -> str:
    """Return the reason why concurrent units are not worth a search; empty if they may be.

    It is empty, too, if no gap is set.
    """
    gap = request.limits.budget.gap
    gain = most_to_gain(request) if gap else None
    if gain is None or gain > gap:
        return ""
    return f"not searched: units side by side cannot gain {_at_most(gain)}"


def why_no_program(
    problem: Problem, costs: Costs, schedule: Schedule, least: float, progress: Progress = silent
) -> str:
    """Return the reason why a schedule is not worth a program; empty if it may be, or if unknown.

    A program is not worth building if it is the sequential one, or gains at most ``least``, a part
    of the sequential time.
    """
    measuring, graph = costs.measuring, problem.units
    if schedule.instances is not None:
        return ""
    sequential = problem.schedule(sequential_stages(graph))
    if measuring is not None:
        seconds = tuple(measuring.latencies(graph, sequential.stages))
        # Complete the sequential schedule as well, with its chains.
        sequential = costs.completed(sequential.with_latencies(seconds))
    if _program(schedule) == _program(sequential):
        return "finds nothing better than one unit after another"
    if measuring is None or not least:
        return ""
    if schedule.latencies:
        gain = 1 - schedule.latency / sequential.latency
        said = f"not built: its stages gain {_percent(gain) if gain >= _SHOWN else 'nothing'}"
    elif all(stage.strategy is Strategy.CONCURRENT for stage in schedule.stages):
        if schedule.chains or sequential.chains:
            # The bounds do not count the gain of chains.
            return ""
        bounds = measuring.bounds(progress)
        alone = sum(bounds.stage_latency(graph, stage) for stage in sequential.stages)
        gain = 1 - sum(bounds.stage_latency(graph, stage) for stage in schedule.stages) / alone
        said = f"not built: its stages cannot gain {_at_most(gain)}"
    else:
        return ""
    return said if gain <= least else ""


def _program(schedule: Schedule) -> object:
    """Return a key that two schedules with the same program share, given equal latencies."""
    return schedule.stages, schedule.chains, dict(schedule.kernels)


def _at_most(gain: float) -> str:
    return f"more than {_percent(gain)}" if gain >= _SHOWN else "anything"


def _percent(gain: float) -> str:
    return f"{100 * gain:.1f} %"
