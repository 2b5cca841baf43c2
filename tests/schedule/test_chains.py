"""Chains: which units may be some, which of them are best, and schedules that have them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graph_sketch import GraphSketch
from tests.refusals import refused
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.chained_schedule import best_disjoint, candidates, with_chains
from tvm_ios.schedule.placement import Share
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages


def fork() -> OpGraph:
    """0 → 1 → 2 → (3 → 4, 5) → 6."""
    sketch = GraphSketch()
    stem = 0
    for kind in ("relu", "exp", "tanh"):
        stem = sketch.op(kind, stem)
    left = sketch.op("sigmoid", sketch.op("exp", stem))
    return sketch.graph(sketch.op("add", left, sketch.op("relu", stem)))


def stage(*groups: tuple[int, ...], strategy: Strategy = Strategy.CONCURRENT) -> Stage:
    return Stage(strategy, groups)


def schedule(graph: OpGraph, *stages: Stage) -> Schedule:
    return Schedule(graph.fingerprint, stages, "by hand")


FORKED = (stage((0, 1)), stage((2,)), stage((3, 4), (5,)), stage((6,)))


def test_candidates_follow_one_another_and_alone_read_what_they_are_handed() -> None:
    graph = fork()
    # 2 is read by two units; before 6 two groups run, of which none is the one before it.
    assert list(candidates(graph, FORKED)) == [(0, 0, 1), (1, 1, 2), (2, 3, 4)]
    assert list(candidates(graph, sequential_stages(graph))) == [
        (1, 0, 1),
        (2, 1, 2),
        (4, 3, 4),
        (6, 5, 6),
    ]


def test_what_is_an_output_is_not_handed_on() -> None:
    sketch = GraphSketch()
    first = sketch.op("relu", 0)
    graph = sketch.graph(first, sketch.op("exp", first))
    assert not list(candidates(graph, sequential_stages(graph)))


def test_stages_that_share_a_chain_are_one() -> None:
    graph = fork()
    original = replace(schedule(graph, *FORKED), latencies=(4.0, 2.0, 5.0, 1.0))
    chained = with_chains(original, [(3, 4), (1, 2)], 3.0)
    chained.validate(graph)
    assert chained.stages == (stage((0, 1, 2)), stage((3, 4), (5,)), stage((6,)))
    assert chained.chains == ((1, 2), (3, 4))
    assert chained.latencies == pytest.approx((4.5, 3.75, 0.75))
    assert original.latency - chained.latency == pytest.approx(3.0)


def test_placements_stay_with_their_stages() -> None:
    graph = fork()
    placed = stage((3, 4, 5), strategy=Strategy.CO_SCHEDULE)
    placement = tuple(Share(unit, 0, 0, 0, 1) for unit in (3, 4, 5))
    original = replace(
        schedule(graph, stage((0,)), stage((1,)), stage((2,)), placed, stage((6,))),
        placements={3: placement},
    )
    original.validate(graph)
    assert list(candidates(graph, original.stages)) == [(1, 0, 1), (2, 1, 2)]
    chained = with_chains(original, [(0, 1)])
    chained.validate(graph)
    assert chained.placements == {2: placement}


def test_chains_are_optional_and_come_back() -> None:
    graph = fork()
    original = schedule(graph, *FORKED)
    assert "chains" not in original.to_json(graph), "files are as before there were any"
    chained = with_chains(original, [(1, 2)])
    data = json.loads(json.dumps(chained.to_json(graph)))
    assert data["chains"] == [[1, 2]]
    assert Schedule.from_json(data) == chained != original
    assert chained.of_stages_alone.chains == ()
    with refused(ScheduleError, "schedule file"):
        Schedule.from_json({**data, "chains": [[1, "2"]]})


@pytest.mark.parametrize(
    ("chains", "named"),
    [
        ([(0,)], ("fewer than two",)),
        ([(0, 9)], ("unit 9",)),
        ([(0, 1), (1, 0)], ("'exp1'", "two chains")),
        ([(1, 2)], ("'exp1'", "'tanh2'", "follow")),
        ([(4, 3)], ("follow",)),
        ([(5, 6)], ("follow",)),
    ],
)
def test_refused_chains(chains: list[tuple[int, ...]], named: tuple[str, ...]) -> None:
    graph = fork()
    with refused(ScheduleError, *named):
        replace(schedule(graph, *FORKED), chains=tuple(chains)).validate(graph)


def test_a_chain_hands_on_what_nobody_else_reads() -> None:
    graph = fork()
    whole = replace(schedule(graph, stage((0, 1, 2, 3, 4, 5, 6))), chains=((2, 3),))
    with refused(ScheduleError, "'tanh2'", "alone"):
        whole.validate(graph)


@given(
    st.lists(st.lists(st.integers(-3, 9), min_size=1, max_size=5), max_size=3),
)
def test_the_best_chains_are_those_of_brute_force(paths: list[list[int]]) -> None:
    gains: dict[tuple[int, int], float] = {}
    unit = 0
    for path in paths:
        for gain in path:
            gains[unit, unit + 1] = float(gain)
            unit += 1
        unit += 1
    chosen = best_disjoint(gains)
    assert len({u for pair in chosen for u in pair}) == 2 * len(chosen)
    best = max(
        sum(gains[pair] for pair in some)
        for count in range(len(gains) + 1)
        for some in combinations(gains, count)
        if len({u for pair in some for u in pair}) == 2 * count
    )
    assert sum(gains[pair] for pair in chosen) == best
