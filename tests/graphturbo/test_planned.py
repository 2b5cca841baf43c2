"""Partitions as schedule files have them: the same instances come back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.graphturbo.onnx_networks import Runner, networks
from tvm_ios.api.units import operators_and_tail
from tvm_ios.clock import OutOfTimeError
from tvm_ios.graph.op_graph import bits
from tvm_ios.graph.units import form_units
from tvm_ios.graphturbo.planned import planned_instances
from tvm_ios.graphturbo.policy import choose_instances, schedule_on_lanes
from tvm_ios.models.source import ModelSource
from tvm_ios.policies.mixing import by_sub_graph, segments_of
from tvm_ios.schedule.schedule import Schedule


def test_splitting_ends_when_the_time_is_over() -> None:
    graph, _ = operators_and_tail(ModelSource("inception_block", batch=4))
    reports: list[tuple[int, int]] = []

    def report(done: int, total: int) -> bool:
        reports.append((done, total))
        return done < 2

    with pytest.raises(OutOfTimeError, match="the time was over"):
        choose_instances(
            graph, form_units(graph), lanes=2, capacity=1, axes=(0,), least_factor=4, report=report
        )
    assert [done for done, _ in reports] == [0, 1, 2]


@examples(40)
@given(
    model=networks(),
    capacity=st.sampled_from((500, 2000, 8000, 1 << 60)),
    least=st.sampled_from((1, 2)),
    lanes=st.integers(1, 3),
)
def test_a_file_has_the_instances_that_were_chosen(
    model: Any, capacity: int, least: int, lanes: int
) -> None:
    graph = Runner(model).graph
    units = form_units(graph)
    chosen = choose_instances(graph, units, lanes=lanes, capacity=capacity, least_factor=least)
    on_lanes = schedule_on_lanes(units, chosen, lanes)
    on_lanes.validate(units)
    split = {s.layers: s for s in chosen.subgraphs if s.factor > 1}
    assert (on_lanes.instances is None) == (not split)
    for schedule in (on_lanes, by_sub_graph(on_lanes)):
        schedule.validate(units)
        text = json.dumps(schedule.to_json(units))
        assert Schedule.from_json(json.loads(text)) == schedule
        assert segments_of(schedule)[-1].done == units.all_operators
        if schedule.instances is None:
            continue
        planned = planned_instances(graph, units, schedule)
        instances = planned.instances
        assert {s.layers: s.factor for s in instances.subgraphs if s.split is not None} == {
            mask: s.factor for mask, s in split.items()
        }
        owned = {(chosen.subgraphs[i.subgraph].layers, i.part): i.owned for i in chosen.instances}
        done = 0
        for number in planned.order:
            instance = instances.instances[number]
            mask = instances.subgraphs[instance.subgraph].layers
            if mask in split:
                assert instance.owned == owned[mask, instance.part]
            assert not instances.predecessors[number] & ~done
            done |= 1 << number
        assert done == (1 << len(instances)) - 1
        for stages, numbers in planned.regions:
            inside = {
                u for n in numbers for u in _units(instances.subgraphs, instances.instances[n])
            }
            assert inside == {u for stage in stages for u in schedule.stages[stage].units}


def _units(subgraphs: Any, instance: Any) -> tuple[int, ...]:
    return tuple(bits(subgraphs[instance.subgraph].layers))
