"""Which co-scheduled stages are compiled before anything is measured."""

from __future__ import annotations

from hypothesis import given

from tests.fast_run import examples
from tests.random_dags import dags, graph_of
from tvm_ios.devices.device import load_device
from tvm_ios.devices.engine import engine_of
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.promising import promising_stages
from tvm_ios.schedule.stage import Strategy
from tvm_ios.schedule.waves import waves


@examples(25)
@given(dags(6))
def test_stages_are_in_the_order_of_append_and_none_twice(predecessors: tuple[int, ...]) -> None:
    graph = graph_of(predecessors)
    everything = (1 << len(predecessors)) - 1
    stages = promising_stages(graph, [everything], load_device("h200"), Pruning(3, 3))
    seen = [stage.twins[0].units for stage in stages]
    assert len(set(seen)) == len(seen)
    for stage in stages:
        assert len(stage.twins) == 1
        assert stage.twins[0].strategy is Strategy.CO_SCHEDULE
        assert stage.gain >= 0
        units = stage.twins[0].units
        assert len(units) > 1
        assert tuple(u for wave in waves(graph.predecessors, units) for u in wave) == units


def test_a_chain_of_small_units_is_promising_and_twins_count() -> None:
    graph = graph_of((0, 1, 2, 4))
    device = load_device("v100")
    (first, *others) = promising_stages(graph, [0b0011, 0b1100], device, Pruning(2, 2))
    assert not others
    assert [stage.units for stage in first.twins] == [(0, 1), (2, 3)]
    # One launch less in each, and a wait more.
    saved = engine_of(device).launch_overhead - device.wait_overhead
    assert abs(first.gain - 2 * saved) < 1e-9


def test_a_chain_of_kernels_that_are_launched_early_is_better_than_a_persistent_one() -> None:
    graph, pruning = graph_of((0, 1, 2, 4)), Pruning(2, 2)
    assert promising_stages(graph, [0b0011, 0b1100], load_device("a100"), pruning)
    assert not promising_stages(graph, [0b0011, 0b1100], load_device("h200"), pruning)
