from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from tests.random_dags import dags, graph_of
from tests.refusals import refused
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.schedule.stage import Strategy


@given(dags(8))
def test_greedy_runs_each_unit_as_soon_as_its_inputs_are_there(
    predecessors: tuple[int, ...],
) -> None:
    graph = graph_of(predecessors)
    schedule = greedy_schedule(graph)
    schedule.validate(graph)
    stage_of = {u: i for i, stage in enumerate(schedule.stages) for u in stage.units}
    for unit in range(len(graph)):
        before = [stage_of[p] for p in range(unit) if predecessors[unit] >> p & 1]
        assert stage_of[unit] == max(before, default=-1) + 1
    assert all(len(group) == 1 for stage in schedule.stages for group in stage.groups)


@given(dags(8))
def test_sequential_is_one_unit_a_stage_in_order(predecessors: tuple[int, ...]) -> None:
    graph = graph_of(predecessors)
    schedule = sequential_schedule(graph)
    schedule.validate(graph)
    assert [stage.units for stage in schedule.stages] == [(u,) for u in range(len(graph))]
    assert (schedule.batch, schedule.policy, schedule.latencies) == (graph.batch, "sequential", ())


@pytest.mark.parametrize("make", [sequential_schedule, greedy_schedule])
def test_baselines_say_for_which_batch_they_are(make) -> None:
    graph = graph_of([0, 1])
    of_eight = replace(graph, tensors=tuple(replace(t, shape=(8, 4)) for t in graph.tensors))
    assert make(of_eight).batch == 8


def test_greedy_stays_inside_blocks() -> None:
    graph = graph_of([0, 0, 0b1, 0b10])
    assert [stage.units for stage in greedy_schedule(graph).stages] == [(0, 1), (2, 3)]
    stages = greedy_schedule(graph, [0b0101, 0b1010]).stages
    assert [stage.units for stage in stages] == [(0,), (2,), (1,), (3,)]
    assert all(stage.strategy is Strategy.CONCURRENT for stage in stages)


def test_greedy_refuses_blocks_that_do_not_fit() -> None:
    with refused(ValueError, "later block"):
        greedy_schedule(graph_of([0, 0b1]), [0b10, 0b01])
