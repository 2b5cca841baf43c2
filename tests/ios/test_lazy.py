from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.random_dags import all_on_one_lane, dags, graph_of
from tests.refusals import refused
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.ending_space import UNPRUNED, Pruning
from tvm_ios.ios.lazy import Budget, lazy_search
from tvm_ios.ios.network import search_graph
from tvm_ios.policies.ios import IOS_POLICIES
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages

NO_LIMIT = Budget()


class Table:
    """Random seconds by stage key; as optimistic costs, a random part of them."""

    name = "table"

    def __init__(self, seed: int, size: int, optimistic: bool) -> None:
        self.seed = seed
        self.size = size
        self.optimistic = optimistic
        self.measured: list[str] = []

    def key(self, graph: OpGraph, stage: Stage) -> str:
        """Stages of the two halves of the graph share their keys."""
        return f"{stage.strategy} {sorted(unit % self.size for unit in stage.units)}"

    def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
        rng = random.Random(f"{self.seed} {self.key(graph, stage)}")
        seconds = rng.uniform(0.1, 1) * len(stage.units) ** 0.5
        return seconds * rng.uniform(0.3, 1) if self.optimistic else seconds


def two_halves(predecessors: tuple[int, ...], alike: bool) -> tuple[OpGraph, list[int]]:
    """A graph and itself again, next to it, as two blocks; equal ones or different in name."""
    size = len(predecessors)
    kinds = ["conv2d"] * size + ["conv2d" if alike else "dense"] * size
    graph = graph_of([*predecessors, *(mask << size for mask in predecessors)], kinds)
    return graph, [(1 << size) - 1, ((1 << size) - 1) << size]


def mergeable(graph: OpGraph, units: tuple[int, ...]) -> bool:
    return len({unit % 2 for unit in units}) == 1


def run(
    predecessors: tuple[int, ...],
    seed: int,
    policy: str = "ios-both",
    pruning: Pruning = UNPRUNED,
    alike: bool = True,
    budget: Budget = NO_LIMIT,
    **options: object,
):
    graph, blocks = two_halves(predecessors, alike)
    size = len(predecessors)
    optimistic, true = Table(seed, size, True), Table(seed, size, False)
    # Blocks of odd size would differ in the parity of their units.
    may_merge = mergeable if size % 2 == 0 else lambda *_: True

    def measure(stages: Iterable[Stage]) -> Iterator[float]:
        for stage in stages:
            true.measured.append(true.key(graph, stage))
            yield true.stage_latency(graph, stage)

    schedule, statistics = lazy_search(
        graph,
        blocks,
        optimistic,
        measure,
        true.key,
        IOS_POLICIES[policy].strategies,
        pruning,
        may_merge,
        budget=budget,
        **options,  # type: ignore[arg-type]
    )
    all_on_one_lane(graph, schedule).validate(graph)
    assert len(true.measured) == len(set(true.measured)) == statistics.stages_measured
    for stage, seconds in zip(schedule.stages, schedule.latencies, strict=True):
        assert true.key(graph, stage) in true.measured
        assert seconds == true.stage_latency(graph, stage)
    full, searched = search_graph(
        graph, blocks, true, IOS_POLICIES[policy].strategies, pruning, may_merge
    )
    sequential = sum(true.stage_latency(graph, stage) for stage in sequential_stages(graph))
    return schedule, statistics, full.latency, sequential, searched


@given(
    dags(6),
    st.integers(0, 2**32),
    st.sampled_from(sorted(IOS_POLICIES)),
    st.builds(Pruning, st.none() | st.integers(1, 3), st.none() | st.integers(1, 3)),
    st.booleans(),
)
@examples(80)
def test_finds_the_full_search_s_optimum_from_lower_bounds(
    predecessors: tuple[int, ...], seed: int, policy: str, pruning: Pruning, alike: bool
) -> None:
    schedule, statistics, full, _, searched = run(predecessors, seed, policy, pruning, alike)
    assert statistics.complete
    assert math.isclose(schedule.latency, full, rel_tol=1e-9)
    assert statistics.blocks_searched == (1 if alike else 2)
    assert (statistics.states, statistics.transitions) == (searched.states, searched.transitions)


@given(
    dags(6),
    st.integers(0, 2**32),
    st.builds(Budget, max_measurements=st.integers(0, 20))
    | st.builds(Budget, patience=st.integers(0, 20)),
    st.booleans(),
)
@examples(120)
def test_a_search_cut_short_still_gives_a_measured_schedule(
    predecessors: tuple[int, ...], seed: int, budget: Budget, alike: bool
) -> None:
    schedule, statistics, full, sequential, _ = run(predecessors, seed, alike=alike, budget=budget)
    if budget.max_measurements is not None:
        assert statistics.stages_measured <= max(budget.max_measurements, len(predecessors))
    assert full * (1 - 1e-9) <= schedule.latency <= sequential * (1 + 1e-9)
    if statistics.complete:
        assert math.isclose(schedule.latency, full, rel_tol=1e-9)


@pytest.mark.parametrize("patience", [0, 1, 10, None])
def test_a_search_that_wins_nothing_ends_with_its_patience(patience: int | None) -> None:
    """Six units side by side: stages of several promise a tenth, and take a tenth more."""
    graph, strategies = graph_of([0] * 6), IOS_POLICIES["ios-parallel"].strategies
    measured: list[int] = []

    class Promise:
        name = "promise"

        def stage_latency(self, graph: OpGraph, stage: Stage) -> float:
            return 1.0 if len(stage.units) == 1 else 0.9 * len(stage.units)

    def measure(stages: Iterable[Stage]) -> Iterator[float]:
        for stage in stages:
            measured.append(len(stage.units))
            yield 1.0 if len(stage.units) == 1 else 1.1 * len(stage.units)

    schedule, statistics = lazy_search(
        graph,
        [graph.all_operators],
        Promise(),
        measure,
        lambda _, stage: str(stage.groups),
        strategies,
        UNPRUNED,
        lambda *_: False,
        budget=Budget(gap=0.01, patience=patience),
    )
    assert schedule.latency == 6.0
    assert measured[:6] == [1] * 6
    assert statistics.complete == (patience is None)
    if patience is not None:
        # A round, in which each unit is in one stage at most, is not broken off.
        assert patience <= len(measured) - 6 <= patience + 3


@given(dags(6), st.integers(0, 2**32), st.booleans())
@examples(40)
def test_without_time_single_units_are_measured_still(
    predecessors: tuple[int, ...], seed: int, alike: bool
) -> None:
    budget = Budget(time_limit=0.0)
    schedule, statistics, _, sequential, _ = run(predecessors, seed, alike=alike, budget=budget)
    assert math.isclose(schedule.latency, sequential)
    assert (statistics.complete, statistics.lower_bound) == (False, None)


def test_few_stages_are_measured() -> None:
    predecessors = (0, 0, 0, 0b1, 0b10, 0b100, 0b111000)
    schedule, statistics, full, sequential, _ = run(predecessors, seed=3)
    assert statistics.complete
    assert math.isclose(schedule.latency, full)
    assert full < sequential
    assert statistics.lower_bound is not None
    assert math.isclose(statistics.lower_bound, full)
    assert len(predecessors) < statistics.stages_measured < statistics.candidates / 2
    assert statistics.rounds > 1


def test_equal_measurements_prefer_concurrent_to_merged() -> None:
    graph = graph_of([0, 0])
    optimistic = Table(0, 2, True)
    schedule, statistics = lazy_search(
        graph,
        [0b11],
        optimistic,
        lambda stages: (1.0 for _ in stages),
        optimistic.key,
        IOS_POLICIES["ios-both"].strategies,
        UNPRUNED,
        lambda *_: True,
        budget=Budget(everything=True),
    )
    assert schedule.stages == (Stage(Strategy.CONCURRENT, ((0,), (1,))),)
    assert statistics.stages_measured == 4


def test_measuring_everything_finds_the_same() -> None:
    predecessors = (0, 0, 0b1, 0b10)
    schedule, statistics, full, _, _ = run(predecessors, 5, budget=Budget(everything=True))
    assert statistics.complete
    assert math.isclose(schedule.latency, full)
    assert statistics.stages_measured == statistics.candidates


def test_without_time_the_single_units_are_measured_nevertheless() -> None:
    predecessors = (0, 0, 0b1, 0b10)
    shown: list[int] = []
    schedule, statistics, _, sequential, _ = run(
        predecessors,
        2,
        budget=Budget(time_limit=0.0),
        progress=lambda measured, waiting: shown.append(measured),
    )
    assert math.isclose(schedule.latency, sequential)
    assert statistics.stages_measured == len(predecessors)
    assert shown == [1, 2, 3, 4]


def test_with_no_time_an_optimum_beyond_single_units_is_incomplete() -> None:
    outcomes = [run((0, 0, 0b1), s, budget=Budget(time_limit=0.0))[1].complete for s in range(8)]
    assert not all(outcomes)


def test_a_unit_that_cannot_run_is_an_error() -> None:
    graph = graph_of([0])
    table = Table(0, 1, True)
    with refused(ValueError, "infinite"):
        lazy_search(
            graph,
            [1],
            table,
            lambda stages: (math.inf for _ in stages),
            table.key,
            IOS_POLICIES["ios-both"].strategies,
            Pruning(),
            mergeable,
        )
