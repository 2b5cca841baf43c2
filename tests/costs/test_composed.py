from __future__ import annotations

import math
import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.random_dags import dags, graph_of
from tests.refusals import refused
from tvm_ios.costs.composed import ComposedCost, CostError
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.program.lanes import allocate_lanes
from tvm_ios.rammer.wavefront import co_schedule
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.streams import stage_of_streams


def independent(units: int) -> OpGraph:
    tensors = tuple(Tensor(f"t{i}", (1,)) for i in range(units + 1))
    operators = tuple(Operator(f"u{i}", "conv", (0,), (i + 1,)) for i in range(units))
    return OpGraph("flat", operators, tensors, (0,), tuple(range(1, units + 1)))


def key(_: OpGraph, unit: int) -> str:
    return str(unit)


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, list[list[float]], tuple[tuple[int, ...], ...]]:
    """Lanes, units' seconds on 1.. lanes, and groups of them."""
    lanes = draw(st.integers(1, 4))
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    rng = random.Random(draw(st.integers(0, 2**32)))
    # More lanes usually help, but not always.
    seconds = [
        [rng.uniform(0.5, 2) / n**0.7 for n in range(1, lanes + 1)] for _ in range(sum(sizes))
    ]
    groups: list[tuple[int, ...]] = []
    for size in sizes:
        begin = sum(map(len, groups))
        groups.append(tuple(range(begin, begin + size)))
    return lanes, seconds, tuple(groups)


def simulated(lanes: int, seconds: list[list[float]], groups: tuple[tuple[int, ...], ...]) -> float:
    """The least end of all ways to give lanes to groups, without any contention."""
    if len(groups) == 1:
        return sum(min(seconds[unit]) for unit in groups[0])
    if len(groups) <= lanes:
        return min(
            max(
                sum(min(seconds[unit][:size]) for unit in group)
                for group, size in zip(groups, sizes, strict=True)
            )
            for sizes in product(range(1, lanes + 1), repeat=len(groups))
            if sum(sizes) <= lanes
        )
    return min(
        max(
            sum(seconds[u][0] for g, on in zip(groups, place, strict=True) if on == lane for u in g)
            for lane in range(lanes)
        )
        for place in product(range(lanes), repeat=len(groups))
    )


@given(cases())
@examples(150)
def test_a_concurrent_stage_is_a_lower_bound_and_exact_for_teams(
    case: tuple[int, list[list[float]], tuple[tuple[int, ...], ...]],
) -> None:
    lanes, seconds, groups = case
    graph = independent(len(seconds))
    cost = ComposedCost({str(u): s for u, s in enumerate(seconds)}, key, lanes)
    composed = cost.stage_latency(graph, Stage(Strategy.CONCURRENT, groups))
    real = simulated(lanes, seconds, groups)
    assert composed <= real * (1 + 1e-9)
    if len(groups) <= lanes:
        assert composed == pytest.approx(real)
    else:
        longest = max(sum(seconds[u][0] for u in group) for group in groups)
        assert composed >= longest * (1 - 1e-9)
        assert composed >= real / 2


@given(cases())
@examples(60)
def test_no_allocation_of_lanes_beats_the_composed_cost(
    case: tuple[int, list[list[float]], tuple[tuple[int, ...], ...]],
) -> None:
    lanes, seconds, groups = case
    cost = ComposedCost({str(u): s for u, s in enumerate(seconds)}, key, lanes)
    graph = independent(len(seconds))
    alone = [[sum(seconds[u][n] for u in group) for n in range(lanes)] for group in groups]
    load = [0.0] * lanes
    for group, team in zip(alone, allocate_lanes(alone, lanes), strict=True):
        for lane in team:
            load[lane] += group[len(team) - 1]
    assert cost.stage_latency(graph, Stage(Strategy.CONCURRENT, groups)) <= max(load) * (1 + 1e-9)


@examples(60)
@given(dags(6), st.integers(1, 4), st.data())
def test_no_streams_on_lanes_beat_the_composed_cost(
    predecessors: tuple[int, ...], lanes: int, data: st.DataObject
) -> None:
    graph, units = graph_of(predecessors), range(len(predecessors))
    seconds = {unit: float(data.draw(st.integers(1, 5))) for unit in units}
    cost = ComposedCost({str(u): [s] * lanes for u, s in seconds.items()}, key, lanes)
    stream_of = {unit: data.draw(st.integers(0, lanes - 1)) for unit in units}
    stage = stage_of_streams(units, stream_of)
    free, ends = dict.fromkeys(stream_of.values(), 0.0), dict[int, float]()
    for unit in stage.order:
        ready = [ends[source] for source in bits(graph.predecessors[unit])]
        ends[unit] = max([free[stream_of[unit]], *ready]) + seconds[unit]
        free[stream_of[unit]] = ends[unit]
    bound = cost.stage_latency(graph, stage)
    assert max(seconds.values()) <= bound <= max(ends.values()) * (1 + 1e-9)
    if len(units) == 1:
        assert bound == seconds[0]


def test_merged_units_take_as_long_as_the_slowest() -> None:
    latencies = {"0": [3.0, 2.0], "1": [5.0, 1.0]}
    merge = Stage(Strategy.MERGE, ((0,), (1,)))
    graph = independent(2)
    assert ComposedCost(latencies, key, 2).stage_latency(graph, merge) == 2.0


def test_another_graph_is_not_mistaken_for_the_last() -> None:
    cost = ComposedCost({"u0": [1.0], "v0": [4.0]}, lambda g, u: g.operators[u].name, 1)
    stage = Stage(Strategy.CONCURRENT, ((0,),))
    other = OpGraph(
        "other",
        (Operator("v0", "conv", (0,), (1,)),),
        (Tensor("a", (1,)), Tensor("b", (1,))),
        (0,),
        (1,),
    )
    assert cost.stage_latency(independent(1), stage) == 1.0
    assert cost.stage_latency(other, stage) == 4.0


def test_what_was_not_measured_is_named() -> None:
    stage = Stage(Strategy.CONCURRENT, ((1,),))
    with refused(CostError, "'u1'"):
        ComposedCost({"0": [1.0]}, key, 1).stage_latency(independent(2), stage)
    with refused(CostError, "'0'", "1 of 2"):
        ComposedCost({"0": [1.0]}, key, 2)


@given(dags(6), st.integers(1, 4), st.data())
@examples(100)
def test_no_placement_beats_the_composed_cost_of_a_co_scheduled_stage(
    predecessors: tuple[int, ...], lanes: int, data: st.DataObject
) -> None:
    """However rTasks lie: units that are no faster on all lanes than their work divided."""
    graph = graph_of(predecessors)

    def kernel(name: str) -> RKernel:
        tasks, each = data.draw(st.integers(1, 6)), data.draw(st.floats(0.1, 3))
        return RKernel(name, (tasks,), (each,), math.ceil(tasks / lanes) * each)

    kernels = [
        tuple(kernel(f"k{n}") for n in range(data.draw(st.integers(1, 3))))
        for _ in range(len(graph))
    ]
    usual = [ks[0] for ks in kernels]
    seconds = {
        f"{u}": [math.ceil(k.tasks[0] / n) * k.task_seconds[0] for n in range(1, lanes + 1)]
        for u, k in enumerate(usual)
    }
    program = co_schedule(graph, range(len(graph)), kernels.__getitem__, lanes)
    stage = Stage(Strategy.CO_SCHEDULE, (program.units,))
    cost = ComposedCost(seconds, key, lanes, rkernels=kernels.__getitem__)
    assert cost.stage_latency(graph, stage) <= max(program.clocks) * (1 + 1e-9)
    one = [(k,) for k in usual]
    program = co_schedule(graph, range(len(graph)), one.__getitem__, lanes)
    without = ComposedCost(seconds, key, lanes).stage_latency(graph, stage)
    assert cost.stage_latency(graph, stage) <= without <= max(program.clocks) * (1 + 1e-9)


def test_a_co_scheduled_stage_takes_its_path_or_its_work() -> None:
    stage = Stage(Strategy.CO_SCHEDULE, ((0, 1, 2),))
    latencies = {"0": [4.0, 3.0], "1": [6.0, 4.0], "2": [2.0, 5.0]}
    cost = ComposedCost(latencies, key, 2)
    # Side by side the work counts: 12 seconds on two lanes.
    assert cost.stage_latency(graph_of([0, 0, 0]), stage) == 6.0
    # One after another each takes as many lanes as are fastest.
    assert cost.stage_latency(graph_of([0, 1, 2]), stage) == 9.0
