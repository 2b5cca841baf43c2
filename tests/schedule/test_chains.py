"""Chains: which units may be some, which of them are best, and schedules that have them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.graph_sketch import GraphSketch, graphs
from tests.refusals import refused
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.schedule.chained_schedule import (
    best_disjoint,
    candidates,
    possible_chains,
    with_chains,
)
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


def test_candidates_alone_read_what_they_are_handed() -> None:
    graph = fork()
    # 2 is read by two units; what 6 reads is made in two groups, of which none may wait for it.
    assert list(candidates(graph, FORKED)) == [(0, 0, 1), (1, 1, 2), (2, 3, 4)]
    assert list(candidates(graph, sequential_stages(graph))) == [
        (1, 0, 1),
        (2, 1, 2),
        (4, 3, 4),
        (6, 4, 6),
        (6, 5, 6),
    ]


def test_what_is_an_output_is_not_handed_on() -> None:
    sketch = GraphSketch()
    first = sketch.op("relu", 0)
    graph = sketch.graph(first, sketch.op("exp", first))
    assert not list(candidates(graph, sequential_stages(graph)))


def test_stages_that_share_a_chain_are_one() -> None:
    graph = fork()
    original = schedule(graph, *FORKED).with_latencies((4.0, 2.0, 5.0, 1.0))
    chained = with_chains(original, [(3, 4), (1, 2)], 3.0)
    chained.validate(graph)
    assert chained.stages == (stage((0, 1, 2)), stage((3, 4), (5,)), stage((6,)))
    assert chained.chains == ((1, 2), (3, 4))
    assert chained.latencies == pytest.approx((4.5, 3.75, 0.75))
    assert original.latency - chained.latency == pytest.approx(3.0)


def test_what_is_between_the_units_of_a_chain_runs_before_both() -> None:
    graph = fork()
    apart = stage((0,)), stage((1, 2)), stage((3,)), stage((4, 5)), stage((6,))
    chained = with_chains(schedule(graph, *apart), [(4, 6)])
    chained.validate(graph)
    assert chained.stages == (*apart[:3], stage((5, 4, 6)))
    within = with_chains(schedule(graph, stage((0, 1, 2, 3, 5, 4, 6))), [(3, 4), (5, 6)])
    within.validate(graph)
    assert within.stages == (stage((0, 1, 2, 3, 4, 5, 6)),)


@given(data=st.data())
def test_schedules_with_any_chains_are_valid(data: st.DataObject) -> None:
    graph = data.draw(graphs(12))
    stages: list[Stage] = []
    for unit in range(len(graph)):
        if stages and data.draw(st.booleans()):
            (group,) = stages.pop().groups
            stages.append(stage((*group, unit)))
        else:
            stages.append(stage((unit,)))
    apart = schedule(graph, *stages)
    apart.validate(graph)
    chains: list[tuple[int, int]] = []
    for _, *pair in candidates(graph, stages):
        if not {*pair} & {unit for chain in chains for unit in chain} and data.draw(st.booleans()):
            chains.append((pair[0], pair[1]))
    chained = with_chains(apart, chains)
    chained.validate(graph)
    assert chained.chains == tuple(sorted(chains))
    assert sorted(unit for each in chained.stages for unit in each.units) == [*range(len(graph))]


def test_placements_stay_with_their_stages() -> None:
    graph = fork()
    placement = tuple(Share(unit, 0, 0, 0, 1) for unit in (3, 4, 5))
    placed = replace(stage((3, 4, 5), strategy=Strategy.CO_SCHEDULE), placement=placement)
    original = schedule(graph, stage((0,)), stage((1,)), stage((2,)), placed, stage((6,)))
    original.validate(graph)
    assert list(candidates(graph, original.stages)) == [(1, 0, 1), (2, 1, 2)]
    chained = with_chains(original, [(0, 1)])
    chained.validate(graph)
    assert chained.stages[2] == placed


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


def test_a_unit_that_adds_no_kernel_may_begin_a_chain() -> None:
    """0 → 1 → 2 → 3 → 4; kernels of 2 and 3, and of what is before them, and of 3 and 4."""
    sketch = GraphSketch()
    stem = 0
    for kind in ("relu", "exp", "tanh", "sigmoid", "exp"):
        stem = sketch.op(kind, stem)
    graph = sketch.graph(stem)
    kernels = {(2, 3): 2, (1, 2, 3): 1, (0, 1, 2, 3): 2, (3, 4): 1, (2, 3, 4): 2}
    stages = (stage((0, 1)), stage((2, 3, 4)))
    found = list(possible_chains(graph, stages, lambda chain: kernels.get(chain, 0)))
    assert found == [(1, (2, 3)), (1, (1, 2, 3)), (1, (3, 4))]
    chained = with_chains(schedule(graph, *stages), [(1, 2, 3)])
    chained.validate(graph)
    assert chained.stages == (stage((0, 1, 2, 3, 4)),)


@st.composite
def gains_of_chains(draw: st.DrawFn) -> dict[tuple[int, ...], float]:
    """Of units that each hand on to one later one at most, some chains, and what each gains."""
    count = draw(st.integers(2, 8))
    after = {u: draw(st.integers(u + 1, count)) for u in range(count)}
    gains: dict[tuple[int, ...], float] = {}
    for unit in range(count):
        chain = (unit,)
        while after.get(chain[-1], count) < count and len(chain) < 4:
            chain += (after[chain[-1]],)
            if draw(st.booleans()):
                gains[chain] = float(draw(st.integers(-3, 9)))
    return gains


@given(gains_of_chains())
def test_the_best_chains_are_those_of_brute_force(gains: dict[tuple[int, ...], float]) -> None:
    def disjoint(chains: Sequence[tuple[int, ...]]) -> bool:
        units = [unit for chain in chains for unit in chain]
        return len(units) == len({*units})

    chosen = best_disjoint(gains)
    assert disjoint(chosen)
    best = max(
        sum(gains[chain] for chain in some)
        for count in range(len(gains) + 1)
        for some in combinations(gains, count)
        if disjoint(some)
    )
    assert sum(gains[chain] for chain in chosen) == best
