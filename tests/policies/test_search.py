"""The door of all searches: any policy, by any costs."""

from __future__ import annotations

import pytest

from tests.random_dags import graph_of
from tests.refusals import refused
from tvm_ios.costs.costs import NO_COSTS, Costs, Offer, costs_of_model
from tvm_ios.costs.named import cost_names, costs_named
from tvm_ios.errors import PolicyError, SearchError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.policies.policy import Found, Limits, Policy, Problem, Request
from tvm_ios.policies.registry import OURS, policy_named, policy_names, tried_policies
from tvm_ios.schedule.stage import Stage, sequential_stages
from tvm_ios.search import Search, search

GRAPH = graph_of((0, 0, 0, 0b111), ["relu"] * 3 + ["add"])
PROBLEM = Problem.of(GRAPH, 40)
BUDGET = Limits(memory_budget=1 << 20)


class CountUnits:
    name = "count"

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        return float(len(stage.units))


COUNTED = costs_of_model(CountUnits())


@pytest.mark.parametrize("name", OURS)
def test_each_policy_says_what_it_is_and_is_found_or_refused(name: str) -> None:
    policy, costs = policy_named(name), costs_named("v100")
    assert (policy.name, bool(policy.summary)) == (name, True)
    if Offer.PROGRAMS in policy.needs:
        with refused(SearchError, repr(name), Offer.PROGRAMS.value):
            search(PROBLEM, name, costs)
        return
    schedule = search(PROBLEM, name, costs).schedule
    schedule.validate(GRAPH)
    assert (schedule.policy, schedule.device, schedule.batch) == (name, "v100", GRAPH.batch)


@pytest.mark.parametrize("name", ["sequential", "greedy", "memory"])
def test_policies_that_need_no_costs_have_expected_seconds_if_they_are_wanted(name: str) -> None:
    assert search(PROBLEM, name, NO_COSTS).schedule.latencies == ()
    searching = Search(PROBLEM, COUNTED, Limits())
    assert searching.find(name).schedule.latencies == ()
    assert searching.find(name, priced=True).schedule.latency == len(GRAPH)
    assert searching.find(name).statistics is None


def test_an_unknown_policy_is_refused() -> None:
    with refused(SearchError, "'magic'", "ios-both"):
        search(PROBLEM, "magic", COUNTED)


@pytest.mark.parametrize(
    ("name", "costs", "missing"),
    [
        ("ios-both", NO_COSTS, Offer.STAGES),
        ("rammer", COUNTED, Offer.RTASKS),
        ("ios-holistic", COUNTED, Offer.RTASKS),
        ("graphturbo", costs_named("v100"), Offer.PROGRAMS),
    ],
)
def test_costs_that_lack_what_a_policy_needs_are_refused(
    name: str, costs: Costs, missing: Offer
) -> None:
    with pytest.raises(SearchError) as refusal:
        search(PROBLEM, name, costs)
    assert all(part in str(refusal.value) for part in (name, costs.name, missing.value))
    assert name not in tried_policies(costs.offers)[0]


@pytest.mark.parametrize("part", ["stages", "rtasks", "programs"])
def test_a_policy_that_asks_what_its_needs_do_not_name_fails(part: str) -> None:
    careless = Policy("careless", "asks for all", lambda request: getattr(request, part))
    with refused(PolicyError, "careless", f"Offer.{part.upper()}"):
        search(PROBLEM, careless, NO_COSTS)


def test_a_memory_budget_is_for_policies_that_keep_to_it() -> None:
    for name in policy_names():
        if not policy_named(name).needs <= COUNTED.offers:
            continue
        if policy_named(name).keeps_memory_budget:
            search(PROBLEM, name, COUNTED, BUDGET)
            assert Search(PROBLEM, COUNTED, Limits()).front(name)
        else:
            with refused(SearchError, "memory budget"):
                search(PROBLEM, name, COUNTED, BUDGET)
            with refused(SearchError, "memory budget"):
                Search(PROBLEM, COUNTED, Limits()).front(name)


def test_a_policy_of_one_s_own_asks_what_others_find_once() -> None:
    asked: list[str] = []

    def find(request: Request) -> Found:
        asked.append(request.policy)
        assert request.found("greedy") is request.found("greedy")
        return Found(request.problem.schedule(sequential_stages(request.problem.units)))

    searching = Search(PROBLEM, COUNTED, Limits())
    policy = Policy("own", "ours", find)
    schedule = searching.find(policy).schedule
    assert (schedule.policy, schedule.device) == ("own", "count")
    assert searching.find(policy).schedule is schedule
    assert asked == ["own"]


def test_measured_is_a_cost_by_name() -> None:
    assert cost_names()[0] == "measured"
    assert "v100" in cost_names()
