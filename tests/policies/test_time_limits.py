"""A search ends when its time is up, with the best so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given

from benchmarks.memory.schedulers import random_nas
from tests.fast_run import examples
from tests.random_dags import dags, graph_of
from tests.refusals import refused
from tvm_ios.costs.costs import Offer, ProgramCosts
from tvm_ios.costs.named import costs_named
from tvm_ios.devices.memory_hierarchy import load_hierarchy
from tvm_ios.errors import MemoryBudgetError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.graph.units import form_units
from tvm_ios.ios.lazy import Budget
from tvm_ios.ios.stage_memory import stages_peak
from tvm_ios.memory.footprint import check_order
from tvm_ios.memory.problem import memory_problem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
from tvm_ios.models.load import load_operators
from tvm_ios.models.source import ModelSource
from tvm_ios.policies import program_comparison
from tvm_ios.policies.policy import Limits, Problem
from tvm_ios.policies.registry import OURS, policy_named
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.search import search

_COSTS = costs_named("v100")
_NO_TIME = Budget(time_limit=0.0)
_LIMIT = 5.0


@examples(40)
@given(dags(8))
def test_without_time_the_best_stages_of_one_order_are_found(predecessors: tuple[int, ...]) -> None:
    graph = graph_of(predecessors)
    problem, model = Problem.of(graph, 40), _COSTS.stages
    assert model is not None
    found = search(problem, "ios-both", _COSTS, Limits(budget=_NO_TIME))
    found.schedule.validate(graph)
    assert found.statistics is not None
    assert not found.statistics.complete
    alone = (Stage(Strategy.CONCURRENT, ((unit,),)) for unit in range(len(graph)))
    sequential = sum(model.stage_latency(graph, stage) for stage in alone)
    best = search(problem, "ios-both", _COSTS).schedule.latency
    assert best * (1 - 1e-9) <= found.schedule.latency <= sequential * (1 + 1e-9)


def test_a_budget_that_the_one_order_does_not_keep_to_is_not_called_impossible() -> None:
    # Three chains of two units: side by side their first results are live at once.
    graph = graph_of((0, 0, 0, 0b1, 0b10, 0b100), ["relu"] * 6)
    problem = Problem.of(graph, 40)
    least = stages_peak(graph, search(problem, "memory", _COSTS).schedule.stages)
    fitting = search(problem, "ios-both", _COSTS, Limits(memory_budget=least))
    assert stages_peak(graph, fitting.schedule.stages) <= least
    with refused(MemoryBudgetError, "the time limit ended the search"):
        search(problem, "ios-both", _COSTS, Limits(budget=_NO_TIME, memory_budget=least))


def test_a_split_that_is_not_done_in_time_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Programs:
        lanes, hierarchy = 2, load_hierarchy("stcp920")

    operators = load_operators(ModelSource("inception_block", batch=4))
    problem = Problem.of(form_units(operators), 40, operators)
    asked = iter([False, False, False])
    monkeypatch.setattr(program_comparison.Deadline, "spent", lambda _: next(asked, True))
    done: list[str] = []
    found = search(
        problem,
        "graphturbo",
        replace(_COSTS, programs=cast("ProgramCosts", Programs())),
        progress=lambda what, *_: done.append(what),
    )
    assert found.schedule.instances is None
    assert done.count("graphturbo: splitting") >= 2


@pytest.fixture(scope="module", params=["random NAS", "lstm_tc"])
def large(request: pytest.FixtureRequest) -> OpGraph:
    """Graphs of 5,000 and 15,000 operators."""
    if request.param == "lstm_tc":
        return load_operators("lstm_tc")
    graph = random_nas(1, 5000)
    # Convolutions without weights are nothing that units can be formed of.
    return replace(graph, operators=tuple(replace(op, kind="relu") for op in graph.operators))


def check_ends_in_time(search: Callable[[], object]) -> None:
    begin, working = time.perf_counter(), time.process_time()
    search()
    # On a busy machine others take the time, and a solver works on several cores.
    seconds = min(time.perf_counter() - begin, time.process_time() - working)
    assert seconds <= _LIMIT + 2


@pytest.mark.slow
@pytest.mark.parametrize("name", MEMORY_SCHEDULERS)
def test_memory_schedulers_end_in_time(large: OpGraph, name: str) -> None:
    problem = memory_problem(large)

    def schedule() -> None:
        result = MEMORY_SCHEDULERS[name](problem, _LIMIT)
        check_order(problem.predecessors, result.order)

    check_ends_in_time(schedule)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name for name in OURS if Offer.PROGRAMS not in policy_named(name).needs]
)
def test_policies_end_in_time(large: OpGraph, name: str) -> None:
    units = form_units(large) if large.name == "lstm_tc" else large

    def find() -> None:
        limits = Limits(budget=Budget(time_limit=_LIMIT))
        found = search(Problem.of(units, 40, large), name, _COSTS, limits)
        found.schedule.validate(units)

    check_ends_in_time(find)
