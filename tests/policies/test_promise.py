"""What is not searched or built, because it can gain too little: by given times of units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_dags import graph_of
from tvm_ios.costs.composed import ComposedCost
from tvm_ios.costs.costs import Costs
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.lazy import Budget
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.policy import Limits, Problem, Request
from tvm_ios.policies.promise import most_to_gain, too_little, why_no_program
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.progress import silent
from tvm_ios.schedule.stage import Stage
from tvm_ios.search import Search

LANES = 2
#: Two branches between a first and a last unit.
DIAMOND = [0, 0b1, 0b1, 0b110]


class Measured:
    """Measures stages as long as they take by bounds, and some times longer."""

    def __init__(self, seconds: Sequence[tuple[float, float]], longer: float = 1.0) -> None:
        latencies = {str(unit): each for unit, each in enumerate(seconds)}
        self._bounds = ComposedCost(latencies, lambda _, unit: str(unit), LANES)
        self._longer = longer
        self.asked: list[Stage] = []

    def bounds(self, progress: object) -> ComposedCost:
        return self._bounds

    def stage_key(self, graph: OpGraph, stage: Stage) -> str:
        return repr(stage)

    def latencies(self, graph: OpGraph, stages: Iterable[Stage]) -> Iterator[float]:
        for stage in stages:
            self.asked.append(stage)
            alone = len(stage.units) == 1
            yield self._bounds.stage_latency(graph, stage) * (1 if alone else self._longer)


def request_of(
    predecessors: Sequence[int], measured: Measured, gap: float, policy: str = "rammer"
) -> Request:
    problem = Problem.of(graph_of(predecessors), 40)
    costs = Costs("measured", "a CPU", measuring=measured)
    limits = replace(Limits(), budget=Budget(gap=gap))
    return Request(policy, problem, costs, limits, silent, lambda _: _refuse(), lambda _: None)


def _refuse() -> None:
    raise AssertionError("nothing is searched")


def test_a_chain_gains_nothing() -> None:
    request = request_of([0, 0b1, 0b10], Measured([(2.0, 1.0)] * 3), 0.01)
    assert most_to_gain(request) == pytest.approx(0)
    assert "cannot gain anything" in too_little(request)


def test_branches_gain_what_lanes_waste() -> None:
    """Of four units with 1.5 s on two lanes and 2 s on one, two can be side by side."""
    request = request_of(DIAMOND, Measured([(2.0, 1.5)] * 4), 0.01)
    assert most_to_gain(request) == pytest.approx(1 - 4.5 / 6)
    assert too_little(request) == ""
    assert "more than 25.0 %" in too_little(replace_gap(request, 0.25))
    assert too_little(replace_gap(request, 0)) == ""


def replace_gap(request: Request, gap: float) -> Request:
    return replace(request, limits=replace(request.limits, budget=Budget(gap=gap)))


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.tuples(
            st.tuples(*(st.integers(0, 2**unit - 1) for unit in range(n))),
            st.tuples(*(st.tuples(st.floats(1, 9), st.floats(0.4, 1)) for _ in range(n))),
        )
    )
)
def test_no_schedule_gains_more(
    drawn: tuple[tuple[int, ...], tuple[tuple[float, float], ...]],
) -> None:
    """The greedy one and the best of IOS's are among those that it bounds."""
    predecessors, times = drawn
    measured = Measured([(alone, alone * part) for alone, part in times])
    request = request_of(predecessors, measured, 0.0)
    most, graph = most_to_gain(request), request.problem.units
    assert most is not None
    bounds = measured.bounds(None)
    alone = sum(bounds.stage_latency(graph, s) for s in sequential_schedule(graph).stages)
    found = search_of(request).find("ios-parallel").schedule
    for stages in (greedy_schedule(graph).stages, found.stages):
        seconds = sum(bounds.stage_latency(graph, stage) for stage in stages)
        assert seconds >= (1 - most) * alone * (1 - 1e-9)


def search_of(request: Request) -> Search:
    measured = request.costs.measuring
    assert measured is not None
    costs = replace(request.costs, stages=measured.bounds(silent))
    return Search(request.problem, costs, request.limits)


def reason(measured: Measured, least: float, policy: str) -> str:
    request = request_of(DIAMOND, measured, least)
    schedule = search_of(request).find(policy).schedule
    return why_no_program(request.problem, request.costs, schedule, least)


@pytest.mark.parametrize(
    ("seconds", "least", "policy", "said"),
    [
        # Two lanes waste nothing: side by side is as long.
        ((2.0, 1.0), 0.01, "greedy", "cannot gain anything"),
        ((2.0, 1.0), 0.01, "ios-parallel", "one unit after another"),
        # A quarter of three units' time may be won of a fourth one.
        ((2.0, 1.5), 0.01, "greedy", ""),
        ((2.0, 1.5), 0.2, "greedy", "more than 16.7 %"),
        ((2.0, 1.5), 0.01, "ios-parallel", ""),
        ((2.0, 1.5), 0.0, "greedy", ""),
    ],
)
def test_what_is_not_built(
    seconds: tuple[float, float], least: float, policy: str, said: str
) -> None:
    told = reason(Measured([seconds] * 4), least, policy)
    assert said in told if said else told == ""


def test_a_search_ends_where_too_little_is_left_to_gain() -> None:
    """Each of two blocks could gain 2 % of the whole: it is worth measuring, or both are not."""

    def measured_stages(gap: float, longer: float = 1.0) -> tuple[int, bool | None, float]:
        seconds = [(2.0, 1.0), (2.0, 1.05), (2.0, 1.05), (2.0, 1.0)] * 2
        second = [0b1000, 0b10000, 0b10000, 0b1100000]
        measured = Measured(seconds, longer)
        request = request_of([*DIAMOND, *second], measured, gap)
        found = search_of(request).find("ios-parallel")
        stages = [stage for stage in measured.asked if len(stage.units) > 1]
        assert found.statistics is not None
        return len(stages), found.statistics.complete, found.schedule.latency

    every, complete, latency = measured_stages(0.0)
    assert every > 0
    assert complete
    assert latency == pytest.approx(8.0)
    assert measured_stages(0.01) == (every, True, pytest.approx(8.0))
    none, complete, latency = measured_stages(0.05)
    assert none == 0
    assert complete
    assert latency == pytest.approx(8.2)
    # What is slower than it looked is found out, with or without a gap.
    assert measured_stages(0.01, 2.0)[2] == pytest.approx(8.2)


def test_a_model_without_units_has_no_gain_to_speak_of() -> None:
    assert most_to_gain(request_of([], Measured([]), 0.01)) is None
