"""Mixing schedules: against all ways, and with instances."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.graph_sketch import GraphSketch
from tests.random_dags import dags, graph_of
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.policies.mixing import Candidate, by_sub_graph, mix, segments_of, with_merges
from tvm_ios.schedule.instance_plan import InstancePlan, PlacedInstance, SplitSubGraph
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages


@st.composite
def schedules(draw: st.DrawFn, graph: OpGraph) -> Schedule:
    """One unit a stage or all that are ready, in any order."""
    done, stages = 0, list[Stage]()
    while done != graph.all_operators:
        left = graph.all_operators & ~done
        ready = [u for u in bits(left) if not graph.predecessors[u] & ~done]
        chosen = draw(st.sampled_from([ready, *([unit] for unit in ready)]))
        stages.append(Stage(Strategy.CONCURRENT, tuple((unit,) for unit in chosen)))
        done |= stages[-1].mask
    return Schedule(graph.fingerprint, tuple(stages), "drawn")


def ways(candidates: list[Candidate], done: int = 0) -> list[float]:
    """The seconds of all ways from a set of units on."""
    totals: list[float] = []
    ended = True
    for candidate in candidates:
        before = 0
        segments = segments_of(candidate.schedule)
        for segment, seconds in zip(segments, candidate.seconds, strict=True):
            if before == done:
                ended = False
                totals += [seconds + rest for rest in ways(candidates, segment.done)]
            before = segment.done
    return [0.0] if ended else totals


def edges(schedule: Schedule) -> list[tuple[int, int, tuple[Stage, ...]]]:
    """Of each segment what was done before and after, and its stages."""
    segments = segments_of(schedule)
    before = [0, *(segment.done for segment in segments)]
    return [
        (b, s.done, tuple(schedule.stages[number] for number in s.stages))
        for b, s in zip(before, segments, strict=False)
    ]


@given(dags(5), st.data())
def test_no_way_is_faster(predecessors: tuple[int, ...], data: st.DataObject) -> None:
    graph = graph_of(predecessors)
    drawn = [data.draw(schedules(graph)) for _ in range(data.draw(st.integers(1, 3)))]
    seconds = st.integers(1, 9).map(float)
    candidates = [Candidate(s, tuple(data.draw(seconds) for _ in s.stages)) for s in drawn]
    mixed = mix(graph, candidates, "mixed")
    mixed.validate(graph)
    taken = [
        min(
            seconds
            for candidate in candidates
            for seconds, other in zip(candidate.seconds, edges(candidate.schedule), strict=True)
            if other == edge
        )
        for edge in edges(mixed)
    ]
    assert sum(taken) == min(ways(candidates))


def chain() -> OpGraph:
    """Four units, each of the one before."""
    sketch = GraphSketch()
    value = 0
    for kind in ("relu", "exp", "tanh", "sqrt"):
        value = sketch.op(kind, value)
    return sketch.graph(value)


def plan_of(*pairs: tuple[tuple[int, ...], int], order: list[tuple[int, int]]) -> InstancePlan:
    subgraphs = tuple(SplitSubGraph(units, factor, (1,)) for units, factor in pairs)
    return InstancePlan(subgraphs, tuple(PlacedInstance(s, p, p % 2) for s, p in order))


def test_sub_graphs_are_borders_where_their_instances_do_not_mingle() -> None:
    graph = chain()
    deep = plan_of(((0, 1), 2), ((2,), 2), order=[(0, 0), (1, 0), (0, 1), (1, 1)])
    schedule = Schedule(graph.fingerprint, sequential_stages(graph), "drawn", instances=deep)
    schedule.validate(graph)
    assert [s.stages for s in segments_of(schedule)] == [(0, 1, 2), (3,)]
    wide = by_sub_graph(schedule)
    wide.validate(graph)
    assert [s.stages for s in segments_of(wide)] == [(0, 1), (2,), (3,)]
    assert [len(s.order) for s in segments_of(wide)] == [2, 2, 0]


def test_instances_are_mixed_with_stages() -> None:
    graph = chain()
    whole = Schedule(graph.fingerprint, sequential_stages(graph), "sequential")
    order = list(itertools.product((0, 1), (0, 1)))
    split = replace(whole, instances=plan_of(((0, 1), 2), ((2, 3), 2), order=order))
    candidates = [Candidate(whole, (3.0, 3.0, 1.0, 1.0)), Candidate(split, (5.0, 3.0))]
    mixed = mix(graph, candidates, "holistic")
    mixed.validate(graph)
    assert mixed.instances == plan_of(((0, 1), 2), order=[(0, 0), (0, 1)])
    candidates = [Candidate(whole, (1.0, 1.0, 2.0, 2.0)), Candidate(split, (5.0, 3.0))]
    mixed = mix(graph, candidates, "holistic")
    mixed.validate(graph)
    assert mixed.instances == plan_of(((2, 3), 2), order=[(0, 0), (0, 1)])


def test_merges_of_another_schedule_inside_of_sub_graphs() -> None:
    graph = graph_of((0, 1, 1, 0b110, 1))
    stages = sequential_stages(graph)
    whole = Schedule(graph.fingerprint, stages, "sequential").with_latencies((1.0,) * 5)
    order = list(itertools.product((0,), (0, 1)))
    split = replace(whole, instances=plan_of(((1, 2, 3), 2), order=order))
    merge = Stage(Strategy.MERGE, ((2,), (1,)))
    one, first, _, join, last = stages
    merging = replace(whole, stages=(one, merge, join, last))
    assert with_merges(split, merging).stages == (one, merge, join, last)
    assert with_merges(split, merging).instances == split.instances
    # Not across the border of a sub-graph, and nothing outside of one.
    across = replace(whole, stages=(one, Stage(Strategy.MERGE, ((2,), (4,))), first, join))
    for schedule, other in ((split, across), (whole, merging), (split, whole)):
        merged = with_merges(schedule, other)
        assert merged == schedule
        assert not merged.latencies
