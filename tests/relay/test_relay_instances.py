"""Sub-graphs and their instances in Relay: the pass, schedules with instances, the policies."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import tvm
from tvm import relay

from relay_passes import GraphTurboPartition, SearchOptions
from relay_passes.instances.subgraph_functions import PARTITION, SUBGRAPH
from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import apply_schedule, for_target, prepare
from relay_passes.prepared import Prepared
from relay_passes.relay.target_units import RelayUnits
from runtime_ext.build import build
from tests.graphturbo_policy import graphturbo_policy
from tests.onnx_sketch import relative_error
from tests.refusals import refused
from tests.region_check import check_regions
from tests.relay.relay_sketch import RelaySketch, inputs_of, module_of, run
from tvm_ios.contest import rules
from tvm_ios.errors import UserError
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.lazy import Budget
from tvm_ios.policies.policy import Limits
from tvm_ios.schedule.instance_plan import (
    InstancePlan,
    PlacedInstance,
    SplitSubGraph,
    subgraph_outputs,
)
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Stage, Strategy

LANES = 2


def pyramid(batch: int) -> Callable[..., Any]:
    """A body of two stages, the second of half the size, a head, and an inner output."""

    def body(s: RelaySketch, x: Any) -> Any:
        first = relay.nn.relu(s.bias(s.conv(x, 3, 16), 16))
        first = relay.nn.relu(relay.add(first, s.conv(first, 16, 16)))
        second = relay.nn.relu(s.conv(first, 16, 16, strides=(2, 2)))
        second = relay.add(second, s.conv(second, 16, 16))
        flat = relay.reshape(second, (batch, 16 * 16))
        return relay.nn.dense(flat, s.normal(5, 16 * 16)), second

    return body


def bottlenecks(s: RelaySketch, x: Any) -> Any:
    """Convolutions with strides, a pooling, a residual sum and a join, on odd extents."""
    x = relay.nn.relu(s.bias(s.conv(x, 3, 8, strides=(2, 2)), 8))
    x = relay.nn.max_pool2d(x, (3, 3), strides=(2, 2), padding=(1, 1), ceil_mode=True)
    y = relay.nn.relu(s.bias(s.conv(x, 8, 16, (1, 1)), 16))
    y = s.bias(s.conv(y, 16, 16, groups=16), 16)
    x = relay.add(x, s.bias(s.conv(y, 16, 8, (1, 1)), 8))
    a = relay.nn.relu(s.conv(x, 8, 8, (5, 3)))
    return relay.concatenate([a, relay.nn.avg_pool2d(x, (3, 3), padding=(1, 1))], axis=1)


def attention(s: RelaySketch, x: Any) -> Any:
    """What Relay spells with reshapes and transposes: products of other ranks."""
    rows = relay.reshape(relay.nn.dense(relay.reshape(x, (-1, 8)), s.normal(8, 8)), (4, 6, 8))

    def product(left: Any, right: Any) -> Any:
        return relay.nn.batch_matmul(left, relay.transpose(right, (0, 2, 1)), transpose_b=True)

    scores = relay.nn.softmax(product(rows, relay.transpose(rows, (0, 2, 1))))
    return product(scores, rows)


def shifted(s: RelaySketch, x: Any) -> Any:
    """Images of the other end, columns up to the first, and a padding that a stride skips."""
    x = relay.strided_slice(x, [3, 6], [-5, 0], [-1, -1], axes=[0, 3])
    x = relay.nn.pad(s.conv(x, 3, 16), [(0, 0), (0, 0), (0, 1), (0, 1)])
    moved = relay.strided_slice(x, [1, 1], [9, 9], [1, 1], axes=[2, 3])
    return relay.nn.relu(s.conv(moved, 16, 16, (1, 1), strides=(2, 2)))


def require_equal(module: tvm.IRModule, scheduled: tvm.IRModule, instances: bool = True) -> None:
    """Both executors compute what TVM makes of the module."""
    model = build(scheduled, lanes=LANES)
    # Lanes without instances have no regions of their own.
    assert bool(model.memory.regions) == instances
    if instances:
        check_regions(model.program, model.memory.plan, model.memory.regions)
    expected = run(module)
    for executor in ("native", "reference"):
        session = model.session(executor=executor)
        session.run(**inputs_of(module))
        found = [session.get_output(place) for place in range(len(session.outputs))]
        assert relative_error(found, expected) <= 1e-5


@pytest.mark.parametrize("capacity", [13_000, pytest.param(1 << 20, marks=pytest.mark.slow)])
def test_the_pass_computes_the_same(capacity: int) -> None:
    module = module_of([(8, 3, 8, 8)], pyramid(8))
    before = module.astext()
    partitioned = GraphTurboPartition("stcp920", capacity=capacity)(module)
    assert module.astext() == before
    assert GraphTurboPartition("stcp920")(partitioned).same_as(partitioned)
    partition = json.loads(str(partitioned.attrs[PARTITION]))
    assert (len(partition["order"]) == 1) == (capacity == 1 << 20)
    called: list[int] = []
    body = partitioned["main"].body
    while isinstance(body, relay.Let):
        called.append(int(partitioned[body.value.op].attrs[SUBGRAPH]))
        body = body.body
    assert called == [subgraph for subgraph, _ in partition["order"]]
    # Global functions are called by TVM's virtual machine, not by its graph executor.
    with tvm.transform.PassContext(opt_level=3):
        machine = relay.create_executor("vm", partitioned, tvm.cpu(), "llvm").evaluate()
    found = [result.numpy() for result in machine(**inputs_of(module))]
    assert relative_error(found, run(module)) <= 1e-5


def test_the_pass_refuses_a_batch_that_is_written_down() -> None:
    written = module_of([(8, 3)], lambda s, x: relay.add(x, s.normal(8, 3)))
    with refused(UserError, "extents are written down"):
        GraphTurboPartition("stcp920", capacity=40)(written)


def slow(name: str, *values: Any) -> Any:
    return pytest.param(*values, id=name, marks=pytest.mark.slow)


# An image of the first stage takes 12 KB at its peak: the least capacity makes parts of single
# images, and of one image parts of its rows.
@pytest.mark.parametrize(
    ("shape", "body", "capacity", "axis"),
    [
        pytest.param((1, 3, 37, 22), bottlenecks, 6_000, 2, id="rows"),
        slow("more rows", (1, 3, 37, 22), bottlenecks, 3_000, 2),
        slow("rows of two", (2, 3, 37, 22), bottlenecks, 3_000, 2),
        slow("batch", (8, 3, 8, 8), pyramid(8), 13_000, 0),
        slow("products", (4, 6, 8), attention, 1_000, 0),
        slow("slices", (4, 3, 8, 8), shifted, 1, 0),
    ],
)
def test_lanes_of_instances_compute_the_same(
    shape: tuple[int, ...], body: Callable[..., Any], capacity: int, axis: int
) -> None:
    module = module_of([shape], body)
    prepared = for_target(prepare(module), SearchOptions(lanes=LANES))
    found = graphturbo_policy(prepared, lanes=LANES, capacity=capacity)
    plan = found.planned.instances
    assert plan is not None
    assert axis in {a for subgraph in plan.subgraphs for a in subgraph.axes}
    require_equal(module, apply_schedule(prepared, found.planned))


def towers(s: RelaySketch, x: Any) -> Any:
    """Two convolutions that can be merged, their product, and a convolution of this."""
    left, right = (s.bias(s.conv(x, 3, 4, (k, 3)), 4) for k in (1, 3))
    both = relay.concatenate([left, relay.nn.relu(right)], axis=1)
    return relay.multiply(both, both), s.conv(both, 8, 4)


@pytest.mark.parametrize("axis", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_merged_units_inside_of_instances(axis: int) -> None:
    module = module_of([(4, 3, 6, 6)], towers)
    prepared = for_target(prepare(module), SearchOptions(lanes=LANES))
    require_equal(module, apply_schedule(prepared, merging(prepared, axis)))


def test_refuses_fewer_lanes() -> None:
    module = module_of([(4, 3, 6, 6)], towers)
    prepared = prepare(module)
    scheduled = apply_schedule(prepared, merging(prepared, 0))
    with refused(ScheduleError, "more lanes than 1"):
        build(scheduled, lanes=1)


def merging(prepared: Prepared, axis: int) -> Schedule:
    """A schedule that merges two convolutions of a sub-graph, which is split into two."""
    units = prepared.units
    merged = tuple(u for u in range(2) if units.operators[u].kind.startswith("conv2d"))
    others = tuple(range(len(merged), len(units)))
    stages = (
        Stage(Strategy.MERGE, tuple((u,) for u in merged)),
        *(Stage(Strategy.CONCURRENT, ((u,),)) for u in others),
    )
    inside = (*merged, *others[:-1])
    axes = (axis,) * len(subgraph_outputs(units, inside))
    plan = InstancePlan(
        (SplitSubGraph(inside, 2, axes),), tuple(PlacedInstance(0, n, 1 - n) for n in (1, 0))
    )
    batch = units.batch
    return Schedule(units.fingerprint, stages, "by hand", batch=batch, instances=plan)


@pytest.mark.slow
def test_policies_that_measure_whole_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CHOICE", "SECOND_CHOICE", "PROFILE"):
        monkeypatch.setattr(rules, name, replace(getattr(rules, name), seconds=0.0))
    module = module_of([(4, 3, 8, 8)], pyramid(4))
    budget = Budget(max_measurements=1)
    options = SearchOptions(lanes=LANES, limits=Limits(pruning=Pruning(1, 2), budget=budget))
    search = MeasuredModule(RelayUnits(prepare(module), options))
    found = search.search.find("graphturbo")
    made, took = found.schedule, found.statistics
    # All of it fits any cache: each lane runs its part of the batch.
    assert made.instances is not None
    assert [s.factor for s in made.instances.subgraphs] == [LANES]
    assert took is not None
    assert found.left_out == ()
    mixed = search.search.find("holistic").schedule
    assert (made.policy, mixed.policy) == ("graphturbo", "holistic")
    for schedule in (made, mixed):
        # `holistic` keeps the sequential program where no interval of another lies below one.
        has_instances = schedule.instances is not None
        require_equal(module, apply_schedule(search.prepared, schedule), has_instances)
