"""Concatenations whose inputs lie in their result run nothing, and compute the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tvm import relax

from relay_passes import IOSSchedule, SearchOptions
from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.prepared import Prepared
from relay_passes.relax.importer import import_onnx
from relay_passes.relax.target_units import RelaxUnits
from runtime_ext.build import build
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.scheduled_module import read_scheduled_module
from runtime_ext.units.in_place import arrange
from runtime_ext.units.values import SliceLayout
from tests.fast_run import only
from tests.forced_schedules import merge_first
from tests.onnx_sketch import relative_error
from tests.relax.relax_sketch import (
    LANES,
    RelaxSketch,
    inputs_of,
    module_of,
    outputs_of,
    run,
    same_bits,
)
from tvm_ios.graph.merge_rule import mergeable
from tvm_ios.ios.lazy import Budget
from tvm_ios.models.load import load_onnx
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.policy import Limits
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.program import Launch, Role
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy

op = relax.op
IMAGE = (1, 6, 8, 8)

SCHEDULERS: dict[str, Callable[[Prepared], Schedule]] = {
    "sequential": lambda prepared: sequential_schedule(prepared.units),
    "greedy": lambda prepared: greedy_schedule(prepared.units),
    "merged": merge_first,
}


def cat(s: RelaxSketch, *fields: Any, axis: int = 1) -> Any:
    return s.emit(op.concat(list(fields), axis=axis))


def relu(s: RelaxSketch, x: Any) -> Any:
    return s.emit(op.nn.relu(x))


def pixels(s: RelaxSketch, x: Any, channels: int) -> Any:
    """A convolution that is compiled in little time."""
    return s.conv(x, channels, (1, 1))


def plain(s: RelaxSketch, x: Any) -> Any:
    y = cat(s, relu(s, s.conv(x, 16)), relu(s, s.conv(x, 32, (1, 1))))
    return s.conv(y, 8)


def odd_channels(s: RelaxSketch, x: Any) -> Any:
    parts = [s.conv(x, c) for c in (3, 7, 17, 33, 1)]
    pool = s.emit(op.nn.max_pool2d(x, (3, 3), padding=(1, 1, 1, 1)))
    return s.conv(cat(s, *parts, pool), 5)


def batches(s: RelaxSketch, x: Any) -> Any:
    return s.conv(cat(s, s.conv(x, 5), s.conv(x, 16, (1, 1))), 8)


def depthwise(s: RelaxSketch, x: Any) -> Any:
    deep = s.conv(x, 6, groups=6)
    average = s.emit(op.nn.avg_pool2d(x, (3, 3), padding=(1, 1, 1, 1)))
    joined = cat(s, s.conv(x, 4), deep, average)
    return s.conv(joined, 16, groups=8), s.emit(op.mean(joined, [2, 3], keepdims=True))


def a_branch_used_twice(s: RelaxSketch, x: Any) -> Any:
    left, right = relu(s, pixels(s, x, 7)), relu(s, pixels(s, x, 9))
    return s.conv(cat(s, left, right), 8), pixels(s, right, 8), s.conv(left, 8, (1, 1))


def grown(s: RelaxSketch, x: Any) -> Any:
    """DenseNet: each concatenation goes into the next, and into a convolution."""
    y = s.conv(x, 10)
    for _ in range(3):
        y = cat(s, y, s.conv(relu(s, s.norm(y)), 5))
    return s.conv(y, 8)


def all_before(s: RelaxSketch, x: Any) -> Any:
    """DenseNet as others write it: each concatenation of all features so far."""
    features = [pixels(s, x, 10)]
    for _ in range(3):
        y = features[0] if len(features) == 1 else cat(s, *features)
        features.append(s.conv(relu(s, s.norm(y)), 5))
    return s.conv(cat(s, *features), 8)


def inside_another(s: RelaxSketch, x: Any) -> Any:
    """Inception's last blocks: one unit of two concatenations, and one that others read too."""
    inner = cat(s, pixels(s, x, 3), pixels(s, x, 4))
    shared = cat(s, pixels(s, x, 5), pixels(s, x, 6))
    return s.conv(cat(s, pixels(s, x, 2), inner, shared), 8), pixels(s, shared, 8)


def of_many_rows(s: RelaxSketch, x: Any) -> Any:
    """Along the rows, which lie one after another in a single image."""
    return s.conv(cat(s, pixels(s, x, 16), s.conv(x, 16, (1, 1)), axis=2), 8)


def rows_of_several_images(s: RelaxSketch, x: Any) -> Any:
    """Those of one image do not follow those of the image before; some are read by themselves."""
    narrow, wide = pixels(s, x, 16), relu(s, s.conv(x, 16))
    deep = s.conv(narrow, 16, groups=16)
    total = s.emit(op.add(narrow, wide))
    pool = s.emit(op.nn.max_pool2d(wide, (3, 3), padding=(1, 1, 1, 1)))
    tall = cat(s, narrow, total, deep, wide, pool, axis=2)
    flat = s.emit(op.reshape(narrow, (2, 16 * 64)))
    read = [s.emit(op.tanh(wide)), s.emit(op.exp(flat)), pixels(s, total, 8)]
    return s.conv(tall, 8), pixels(s, tall, 8), *read


def vectors(s: RelaxSketch, x: Any) -> Any:
    parts = [s.emit(op.matmul(x, s.normal(12, n))) for n in (5, 16, 3)]
    joined = cat(s, relu(s, parts[0]), parts[1], s.emit(op.nn.softmax(parts[2])), axis=1)
    return s.emit(op.matmul(joined, s.normal(24, 7)))


def sequences(s: RelaxSketch, x: Any) -> Any:
    tokens = cat(s, s.emit(op.matmul(x, s.normal(8, 8))), s.emit(op.sin(x)), axis=1)
    return s.emit(op.nn.layer_norm(tokens, s.normal(8), s.normal(8), axes=[-1]))


def a_graph_output(s: RelaxSketch, x: Any) -> Any:
    flat = [s.emit(op.nn.batch_flatten(pixels(s, x, c))) for c in (2, 3)]
    return cat(s, *flat)


def an_image_as_output(s: RelaxSketch, x: Any) -> Any:
    return cat(s, pixels(s, x, 3), pixels(s, x, 5))


def a_graph_input(s: RelaxSketch, x: Any) -> Any:
    return s.conv(cat(s, x, pixels(s, x, 5)), 8)


def an_output_joined(s: RelaxSketch, x: Any) -> Any:
    y = pixels(s, x, 5)
    return s.conv(cat(s, y, pixels(s, x, 7)), 8), y


def twice_the_same(s: RelaxSketch, x: Any) -> Any:
    y, z = pixels(s, x, 5), pixels(s, x, 7)
    return s.conv(cat(s, y, z, y), 8)


def a_constant(s: RelaxSketch, x: Any) -> Any:
    return s.conv(cat(s, pixels(s, x, 5), s.normal(1, 3, 8, 8), pixels(s, x, 7)), 8)


def a_shared_input(s: RelaxSketch, x: Any) -> Any:
    first, second, third = (pixels(s, x, c) for c in (4, 5, 6))
    return s.conv(cat(s, first, second), 8), s.conv(cat(s, second, third), 8)


def two_joins_of_a_join(s: RelaxSketch, x: Any) -> Any:
    inner = cat(s, pixels(s, x, 4), pixels(s, x, 5))
    one = cat(s, inner, pixels(s, x, 6))
    return pixels(s, one, 8), s.conv(cat(s, pixels(s, x, 7), inner), 8), pixels(s, inner, 3)


def a_part_again(s: RelaxSketch, x: Any) -> Any:
    """What lies in a field of a concatenation is another field of it."""
    y = pixels(s, x, 4)
    inner = cat(s, y, pixels(s, x, 5))
    return pixels(s, cat(s, inner, y), 8), pixels(s, inner, 3)


def another_axis(s: RelaxSketch, x: Any) -> Any:
    """Rows of an image that is itself a range of channels of another."""
    tall = cat(s, pixels(s, x, 4), s.conv(x, 4, (1, 1)), axis=2)
    return s.conv(cat(s, tall, pixels(s, tall, 5)), 8)


def shuffled(s: RelaxSketch, x: Any) -> Any:
    left, right = cat(s, pixels(s, x, 4), pixels(s, x, 4)), pixels(s, x, 8)
    y = cat(s, left, right)
    y = s.emit(op.reshape(y, (1, 2, 8, 8, 8)))
    y = s.emit(op.reshape(s.emit(op.permute_dims(y, [0, 2, 1, 3, 4])), (1, 16, 8, 8)))
    halves = s.emit(op.split(y, 2, axis=1))
    low, high = (s.emit(relax.TupleGetItem(halves, i)) for i in (0, 1))
    return s.conv(cat(s, low, pixels(s, high, 8)), 8)


def operators_of_tvm(s: RelaxSketch, x: Any) -> Any:
    """Kernels that write whole buffers and no slices."""
    signs = s.emit(op.sign(pixels(s, x, 4)))
    return s.conv(cat(s, signs, s.emit(op.sin(pixels(s, x, 5)))), 8), s.emit(op.cos(signs))


def matrices_as_images(s: RelaxSketch, x: Any) -> Any:
    """What a product makes lies as the model has it, what a convolution makes does not."""
    product = s.emit(op.matmul(pixels(s, x, 3), s.normal(8, 8)))
    return s.conv(cat(s, product, pixels(s, x, 5)), 8)


#: For each body the shape of its input and how many concatenations run something.
BODIES: dict[Callable[..., Any], tuple[tuple[int, ...], int]] = {
    plain: (IMAGE, 0),
    odd_channels: (IMAGE, 0),
    batches: ((3, 6, 8, 8), 0),
    depthwise: (IMAGE, 0),
    a_branch_used_twice: (IMAGE, 0),
    grown: (IMAGE, 0),
    all_before: (IMAGE, 0),
    inside_another: (IMAGE, 0),
    of_many_rows: (IMAGE, 0),
    rows_of_several_images: ((2, 6, 8, 8), 0),
    vectors: ((1, 12), 0),
    sequences: ((1, 4, 8), 0),
    a_graph_output: (IMAGE, 0),
    an_image_as_output: (IMAGE, 1),
    a_graph_input: (IMAGE, 1),
    an_output_joined: (IMAGE, 1),
    twice_the_same: (IMAGE, 1),
    a_constant: (IMAGE, 1),
    a_shared_input: (IMAGE, 1),
    two_joins_of_a_join: (IMAGE, 1),
    a_part_again: (IMAGE, 1),
    another_axis: (IMAGE, 1),
    shuffled: (IMAGE, 0),
    operators_of_tvm: (IMAGE, 0),
    matrices_as_images: (IMAGE, 1),
}


def built(prepared: Prepared, scheduler: str) -> BuiltModel:
    return build(apply_schedule(prepared, SCHEDULERS[scheduler](prepared)), lanes=LANES)


def launches(model: BuiltModel) -> Counter[str]:
    """For each unit of the program its launches."""
    items = [item for lane in model.program.lanes for item in lane]
    made = Counter(model.program.units[i.unit] for i in items if isinstance(i, Launch))
    return Counter({unit: made[unit] for unit in model.program.units})


def running_joins(prepared: Prepared, model: BuiltModel) -> list[str]:
    """The units that only concatenate and have launches."""
    made = launches(model)
    assert made.keys() == set(model.program.units)
    joins = [u.name for u in prepared.units.operators if set(u.kind.split("+")) == {"concat"}]
    assert joins
    return [unit for unit in joins if made[unit]]


#: Others have the same cases alone, or smaller.
LONG = (odd_channels, a_branch_used_twice, grown, rows_of_several_images, two_joins_of_a_join)


@pytest.mark.parametrize(
    "body", only(BODIES.keys() - {*LONG}, BODIES), ids=lambda body: body.__name__
)
def test_computes_the_same(body: Callable[..., Any]) -> None:
    shape, expected = BODIES[body]
    module = module_of([shape], body)
    prepared, inputs = prepare(module), inputs_of(module)
    wanted = run(module, inputs)
    for scheduler in ("sequential", "greedy"):
        model = built(prepared, scheduler)
        check_races(model.program)
        assert len(running_joins(prepared, model)) == expected
        assert relative_error(same_bits(model, inputs, 5), wanted) <= 1e-5


def test_a_merged_convolution_writes_into_the_concatenation() -> None:
    """A fire module: one kernel for both branches, and nothing after it."""

    def fire(s: RelaxSketch, x: Any) -> Any:
        y = relu(s, s.conv(x, 5))
        joined = cat(s, relu(s, s.conv(y, 7, (1, 1))), relu(s, s.conv(y, 18)))
        return s.conv(joined, 4)

    module = module_of([IMAGE], fire)
    prepared = prepare(module)
    units = prepared.units
    stages = [Stage(Strategy.CONCURRENT, ((unit,),)) for unit in range(len(units))]
    stages[1:3] = [Stage(Strategy.MERGE, ((1,), (2,)))]
    schedule = Schedule(units.fingerprint, tuple(stages), "by hand")
    model = build(apply_schedule(prepared, schedule), lanes=1)
    assert list(launches(model).values()) == [1, 1, 0, 1]
    program = model.program
    merged = next(i for i in program.lanes[0] if isinstance(i, Launch) and i.unit == 1)
    parts = [program.buffers[b].part for b in merged.buffers]
    assert [(p.begin, p.end) for p in parts if p is not None] == [(0, 7), (7, 25)]
    inputs = inputs_of(module)
    assert relative_error(outputs_of(model, inputs), run(module, inputs)) <= 1e-5


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_units_lie_alike_before_and_after_scheduling(scheduler: str) -> None:
    """What was measured is what is built, however units are numbered then."""
    prepared = prepare(import_onnx(load_onnx("inception_block")))
    units, outliner = prepared.units, prepared.outliner
    memory = arrange(units, [outliner.unit(u).function for u in range(len(units))])
    read = read_scheduled_module(apply_schedule(prepared, SCHEDULERS[scheduler](prepared)))
    later = arrange(read.graph, read.functions)
    number = {unit.name: u for u, unit in enumerate(units.operators)}
    sliced = 0
    for op, function in zip(read.graph.operators, read.functions, strict=True):
        members = tuple(number[name] for name in op.name.split("+"))
        made = outliner.unit(*members) if len(members) == 1 else outliner.merged(members)
        before = memory.source(made.function, made.data, made.outputs)
        after = later.source(function, op.inputs, op.outputs)
        assert (before.layouts, before.in_place) == (after.layouts, after.in_place)
        sliced += sum(isinstance(layout, SliceLayout) for layout in after.layouts)
    assert sliced > 4


def test_pixels_of_images_begin_at_cache_lines() -> None:
    """Where that takes a third more memory at most; what is joined lies in the result instead."""

    def with_odd_channels(s: RelaxSketch, x: Any) -> Any:
        deep = s.conv(s.conv(x, 24, (1, 1)), 24, groups=24)
        few = pixels(s, deep, 17)
        return pixels(s, cat(s, pixels(s, deep, 40), pixels(s, few, 30)), 8)

    module = module_of([IMAGE], with_odd_channels)
    prepared = prepare(module)
    model = build(apply_schedule(prepared, sequential_schedule(prepared.units)), lanes=1)
    images = [b for b in model.program.buffers if b.role is Role.INTERMEDIATE]
    assert Counter(image.type.shape[3] for image in images) == {32: 2, 17: 1, 70: 3}
    inputs = inputs_of(module)
    assert relative_error(outputs_of(model, inputs), run(module, inputs)) <= 1e-5


def test_stages_are_timed_with_the_slices_that_they_read_and_write() -> None:
    """Any two units that follow each other, whatever of a concatenation they hold."""
    search = MeasuredModule(
        RelaxUnits(prepare(module_of([IMAGE], grown)), SearchOptions(lanes=LANES))
    )
    graph = search.prepared.units
    search.timer.compile_units()
    search.timer.measure_units()
    for stage in sequential_schedule(graph).stages:
        seconds = search.timer.stage_latency(graph, stage)
        launchless = [graph.operators[unit].kind == "concat" for unit in stage.units]
        assert (seconds == 1e-9) == all(launchless)
    for unit in range(len(graph) - 1):
        pair = Stage(Strategy.CONCURRENT, ((unit, unit + 1),))
        assert search.timer.stage_latency(graph, pair) > 0


def test_a_search_over_concatenations_in_place(cache: Path) -> None:
    module = module_of([IMAGE], inside_another)
    options = SearchOptions(lanes=LANES, limits=Limits(budget=Budget(6)))
    made = IOSSchedule("ios-both", options=options)(module)
    inputs = inputs_of(module)
    assert relative_error(outputs_of(build(made, lanes=LANES), inputs), run(module, inputs)) <= 1e-5


def merged_siblings(prepared: Prepared) -> Schedule:
    """One unit after another, those that can be merged as one."""
    graph = prepared.units
    readers: dict[int, list[int]] = defaultdict(list)
    for unit, operator in enumerate(graph.operators):
        if mergeable(graph, (unit, unit)):
            readers[operator.inputs[0]].append(unit)
    together = {units[0]: units for units in readers.values() if mergeable(graph, units)}
    assert together
    taken = {unit for units in together.values() for unit in units[1:]}
    stages = tuple(
        Stage(Strategy.MERGE, tuple((u,) for u in together[unit]))
        if unit in together
        else Stage(Strategy.CONCURRENT, ((unit,),))
        for unit in range(len(graph))
        if unit not in taken
    )
    return Schedule(graph.fingerprint, stages, "by hand")


@pytest.mark.parametrize("scheduler", [SCHEDULERS["sequential"], merged_siblings])
@pytest.mark.parametrize(
    "network",
    [
        "inception_block",
        pytest.param("squeezenet", marks=pytest.mark.slow),
        pytest.param("inception_v3", marks=pytest.mark.slow),
    ],
)
def test_networks_have_no_concatenation_left(
    network: str, scheduler: Callable[[Prepared], Schedule]
) -> None:
    prepared = prepare(import_onnx(load_onnx(network)))
    schedule = scheduler(prepared)
    model = build(apply_schedule(prepared, schedule), lanes=LANES)
    check_races(model.program)
    assert not running_joins(prepared, model)
    # A merged stage has the launches of one kernel and no split.
    merged = [name for name in model.program.units if "+" in name]
    assert len(merged) == sum(stage.strategy is Strategy.MERGE for stage in schedule.stages)
    kernels = {
        name: {
            i.kernel
            for lane in model.program.lanes
            for i in lane
            if isinstance(i, Launch) and model.program.units[i.unit] == name
        }
        for name in merged
    }
    assert all(len(used) == 1 for used in kernels.values())
