"""The policies of IOS: a dynamic program over stages, with different strategies (section 4.2).

``ios-holistic`` adds Rammer's co-scheduling (section 3.3 there) as a third strategy.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

from tvm_ios.costs.costs import Offer, StageMeasuring
from tvm_ios.errors import MemoryBudgetError
from tvm_ios.ios.lazy import lazy_search
from tvm_ios.ios.memory_front import FrontPoint, descend, pareto_front
from tvm_ios.ios.network import search_graph
from tvm_ios.ios.statistics import SearchStatistics
from tvm_ios.policies.no_slower import fastest, no_slower
from tvm_ios.policies.policy import Found, Policy, Request
from tvm_ios.policies.promise import too_little
from tvm_ios.rammer.wavefront import with_placements
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Strategy


def ios_policy(name: str, summary: str, *strategies: Strategy) -> Policy:
    """Return the policy that searches over stages with the given strategies.

    A stage of a single unit is always allowed, as a concurrent one.
    """
    allowed = frozenset(strategies)
    placing = {Offer.RTASKS} if Strategy.CO_SCHEDULE in allowed else set[Offer]()
    return Policy(
        name,
        summary,
        partial(_find, allowed),
        needs=frozenset({Offer.STAGES} | placing),
        strategies=allowed,
        keeps_memory_budget=True,
        front=partial(_front, allowed),
    )


def _find(strategies: frozenset[Strategy], request: Request) -> Found:
    """Return the fastest schedule found, with rTasks placed on lanes if units are co-scheduled."""
    units = request.problem.units
    if Strategy.CO_SCHEDULE not in strategies:
        return Found(*_searched(strategies, request))
    if why_not := too_little(request):
        # Co-scheduling is not worth a search: search merged and concurrent stages only.
        return replace(request.found(IOS_BOTH.name), statistics=None, why_not=why_not)
    rtasks = request.rtasks
    rtasks.prepare(request.progress)
    schedule, statistics = _searched(strategies, request)
    programs, kernels = partial(rtasks.program, units), partial(rtasks.kernels, units)
    return Found(with_placements(schedule, programs, kernels), statistics)


def _searched(
    strategies: frozenset[Strategy], request: Request
) -> tuple[Schedule, SearchStatistics]:
    measuring = request.costs.measuring
    included = [name for name, other in IOS_POLICIES.items() if other.strategies < strategies]
    known = [found for name in included if (found := request.known(name)) is not None]
    try:
        if measuring is None:
            schedule, statistics = _search_all(strategies, request)
        else:
            schedule, statistics = _search_measuring(strategies, request, measuring)
    except MemoryBudgetError:
        # This search may have run out of time before a smaller one did: take that one's result.
        if not known:
            raise
        schedule, statistics = fastest(known)
    if Strategy.CONCURRENT not in strategies:
        return schedule, statistics
    return no_slower(request, schedule, statistics, known)


def _search_all(
    strategies: frozenset[Strategy], request: Request
) -> tuple[Schedule, SearchStatistics]:
    problem, limits = request.problem, request.limits
    as_one = request.costs.branches_alike and limits.reuse
    begin = time.perf_counter()
    blocks = problem.wide_blocks if as_one else problem.blocks
    # Cutting a large graph into blocks takes seconds, which count as time of the search.
    spent, limit = time.perf_counter() - begin, limits.budget.time_limit
    return search_graph(
        problem.units,
        blocks,
        request.stages,
        strategies,
        limits.pruning,
        problem.mergeable,
        reuse=limits.reuse,
        branches_as_one=as_one,
        progress=partial(request.progress, "searching blocks"),
        memory_budget=limits.memory_budget,
        time_limit=None if limit is None else limit - spent,
    )


def _search_measuring(
    strategies: frozenset[Strategy], request: Request, measuring: StageMeasuring
) -> tuple[Schedule, SearchStatistics]:
    problem, limits = request.problem, request.limits
    return lazy_search(
        problem.units,
        problem.blocks,
        measuring.bounds(request.progress),
        partial(measuring.latencies, problem.units),
        measuring.stage_key,
        strategies,
        limits.pruning,
        problem.mergeable,
        budget=limits.budget,
        progress=lambda done, left: request.progress(
            f"{request.policy}: measuring stages", done, done + left
        ),
        memory_budget=limits.memory_budget,
    )


def _front(strategies: frozenset[Strategy], request: Request) -> tuple[FrontPoint, ...]:
    """Return all trades of latency for memory.

    Where stages need no measuring, all are computed in one search; else one search is made for each
    smaller and smaller budget.
    """
    problem, costs = request.problem, request.costs
    if costs.measuring is None:
        as_one = costs.branches_alike and request.limits.reuse
        return pareto_front(
            problem.units,
            problem.wide_blocks if as_one else problem.blocks,
            request.stages,
            strategies,
            request.limits.pruning,
            problem.mergeable,
            branches_as_one=as_one,
            progress=partial(request.progress, "searching blocks"),
        )

    def within(budget: int) -> Schedule:
        limits = replace(request.limits, memory_budget=budget)
        return _find(strategies, replace(request, limits=limits)).schedule

    return descend(problem.units, within)


IOS_MERGE = ios_policy("ios-merge", "IOS's search over merged convolutions", Strategy.MERGE)
IOS_PARALLEL = ios_policy(
    "ios-parallel", "IOS's search over groups side by side", Strategy.CONCURRENT
)
IOS_BOTH = ios_policy(
    "ios-both", "IOS's search over both of these", Strategy.CONCURRENT, Strategy.MERGE
)
IOS_HOLISTIC = ios_policy("ios-holistic", "IOS's search over these and co-scheduling", *Strategy)

IOS_POLICIES = {p.name: p for p in (IOS_MERGE, IOS_PARALLEL, IOS_BOTH, IOS_HOLISTIC)}
