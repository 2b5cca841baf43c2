"""The policy ``holistic``: the fastest segments of all policies' schedules, by measured programs.

A segment lies between two points at which schedules have run the same units.
"""

from __future__ import annotations

from functools import partial

from tvm_ios.costs.costs import Offer
from tvm_ios.policies.mixing import Candidate, by_sub_graph, mix, with_merges
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.policies.program_comparison import Deadline, ProgramComparison
from tvm_ios.policies.promise import why_no_program
from tvm_ios.policies.registry import policy_named
from tvm_ios.schedule.schedule import Schedule

#: Policies whose segments are mixed with those of graphturbo.
_OTHERS = ("sequential", "greedy", "ios-both", "rammer", "ios-holistic")

#: The policy whose merged convolutions are tried inside instances, and policies always mixed.
_MERGES = "ios-both"
_ALWAYS = {"sequential", _MERGES}


def find(request: Request) -> Found:
    """Return the fastest of: the mix of all policies' segments, and the best whole schedules."""
    deadline = Deadline(request.limits.budget.time_limit)
    programs = ProgramComparison(request)
    others = {
        name: found.schedule
        for name in _OTHERS
        if policy_named(name).needs <= request.costs.offers
        and (found := request.found(name))
        and (name in _ALWAYS or not _why_not(request, found))
    }
    instances = request.found("graphturbo")
    if others.keys() == _ALWAYS and not instances.tried:
        only = request.found(_MERGES)
        nothing = "not searched: there is nothing to mix" if _why_not(request, only) else ""
        return Found(only.schedule, why_not=nothing)
    schedules = [*others.values(), *instances.tried, *map(by_sub_graph, instances.tried)]
    for split in instances.tried:
        merged = with_merges(split, others[_MERGES])
        if not deadline.spent() and programs.builds(merged):
            schedules.append(merged)
    distinct = list({programs.timed(s).content: s for s in schedules}.values())
    measured = _profiled(request, programs, distinct)
    mixed = mix(request.problem.units, measured, request.policy)
    # Profiling slows programs down to different degrees: the best whole ones compete too.
    whole = [
        min(measured, key=lambda candidate: sum(candidate.seconds)).schedule,
        measured[0].schedule,
        instances.schedule,
    ]
    if programs.builds(mixed):
        whole.append(mixed)
    answer = programs.answer(programs.fastest(whole), distinct, deadline)
    reasons = dict.fromkeys((*instances.left_out, *answer.left_out))
    return Found(answer.schedule, answer.statistics, tuple(reasons), answer.tried)


HOLISTIC = Policy(
    "holistic",
    "the best of all policies, block by block",
    find,
    needs=frozenset({Offer.STAGES, Offer.PROGRAMS}),
)


def _why_not(request: Request, found: Found) -> str:
    """Return the reason why a schedule is not worth mixing, or an empty string if it may be.

    If the limits allow no gap, only schedules that their policy itself declines are left out.
    """
    problem, least = request.problem, request.limits.budget.gap
    return found.why_not or why_no_program(problem, request.costs, found.schedule, least)


def _profiled(
    request: Request, programs: ProgramComparison, schedules: list[Schedule]
) -> list[Candidate]:
    timed = list(map(programs.timed, schedules))
    report = partial(request.progress, f"{request.policy}: profiling blocks")
    seconds = programs.costs.profile(timed, report)
    return [Candidate(*pair) for pair in zip(timed, seconds, strict=True)]
