"""Schedules with instances: as files, applied by the pass, and what of them is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tvm import relax

from relay_passes import IOSSchedule
from relay_passes.pipeline import apply_schedule, prepare, schedule_of
from relay_passes.prepared import Prepared
from runtime_ext.build import build
from tests.refusals import refused
from tests.relax.relax_sketch import LANES, RelaxSketch, module_of, pyramid, require_near
from tvm_ios.api.documents.page import page_document
from tvm_ios.graphturbo.policy import choose_instances, schedule_on_lanes
from tvm_ios.schedule.instance_plan import (
    InstancePlan,
    PlacedInstance,
    SplitSubGraph,
    subgraph_outputs,
)
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Stage, Strategy, sequential_stages


def graphturbo(prepared: Prepared, capacity: int = 7000, lanes: int = LANES) -> Schedule:
    graph = prepared.outliner.extraction.graph
    instances = choose_instances(graph, prepared.units, lanes=lanes, capacity=capacity, axes=(0,))
    return schedule_on_lanes(prepared.units, instances, lanes)


@pytest.fixture(scope="module")
def module() -> Any:
    return module_of([(8, 3, 8, 8)], pyramid(8))


@pytest.fixture(scope="module")
def prepared(module: Any) -> Prepared:
    return prepare(module)


def test_a_file_is_applied_by_the_pass_and_read_back_from_an_executable(
    module: Any, prepared: Prepared, tmp_path: Path
) -> None:
    schedule = graphturbo(prepared)
    schedule.save(tmp_path / "s.json", prepared.units)
    read = Schedule.load(tmp_path / "s.json")
    assert read == schedule
    scheduled = IOSSchedule(schedule=read)(module)
    require_near(scheduled, module)
    build(scheduled, lanes=LANES).save(tmp_path / "out")
    assert Schedule.load(tmp_path / "out" / "schedule.json") == schedule


def test_a_page_knows_the_instance_of_each_unit(prepared: Prepared, tmp_path: Path) -> None:
    schedule = graphturbo(prepared)
    assert schedule.instances is not None
    build(apply_schedule(prepared, schedule), lanes=LANES).save(tmp_path / "out")
    shown = page_document(tmp_path / "out", repeat=1)
    units, run = shown["units"], shown["runs"][-1]
    ran = {
        (unit["subgraph"], unit["part"], span[1])
        for span in run["spans"]
        if "subgraph" in (unit := units[span[0]])
    }
    assert ran == {(place.subgraph, place.part, place.lane) for place in schedule.instances.order}


def test_older_files_have_no_instances(prepared: Prepared) -> None:
    schedule = Schedule(prepared.units.fingerprint, sequential_stages(prepared.units), "by hand")
    data = schedule.to_json(prepared.units)
    assert "instances" not in data
    assert Schedule.from_json(json.loads(json.dumps(data))).instances is None


def test_shared_instances_run_the_stages_of_their_units(module: Any, prepared: Prepared) -> None:
    schedule = graphturbo(prepared)
    assert schedule.instances is not None
    shared = tuple(replace(place, lane=None) for place in schedule.instances.order)
    shared = replace(schedule, instances=replace(schedule.instances, order=shared))
    scheduled = apply_schedule(prepared, shared)
    require_near(scheduled, module)
    attached = schedule_of(scheduled)
    assert attached is not None
    assert all(len(stage.groups) == 1 for stage in attached.stages)


def test_rows_of_images_are_instances_too() -> None:
    module = module_of([(1, 3, 8, 8)], pyramid(1))
    prepared = prepare(module)
    # The second stage's first unit reads the last rows of both parts of the first stage.
    plan = InstancePlan(
        (SplitSubGraph((0, 1), 3, (2,)), SplitSubGraph((2,), 2, (2,))),
        tuple(PlacedInstance(n, part, part % 2) for n in (0, 1) for part in range(3 - n)),
    )
    stages = sequential_stages(prepared.units)
    schedule = Schedule(prepared.units.fingerprint, stages, "by hand", instances=plan)
    require_near(apply_schedule(prepared, schedule), module)


def towers(sketch: RelaxSketch, x: Any) -> Any:
    """Two convolutions that can be merged, their product, and a convolution of this."""
    emit = sketch.emit
    left, right = (sketch.bias(sketch.conv(x, 4, (k, 3))) for k in (1, 3))
    both = emit(relax.op.concat([left, emit(relax.op.nn.relu(right))], axis=1))
    return emit(relax.op.multiply(both, both)), sketch.conv(both, 4)


def uneven_towers(sketch: RelaxSketch, x: Any) -> Any:
    """Of the first convolution more rows are read than of the second."""
    left, right = (sketch.conv(x, 4) for _ in range(2))
    both = sketch.emit(relax.op.add(sketch.conv(left, 4, (5, 1)), right))
    return sketch.emit(relax.op.nn.relu(both)), sketch.conv(both, 4)


@pytest.mark.parametrize("lanes", [(None, None), (1, 0)])
@pytest.mark.parametrize("axis", [0, 2])
def test_merged_units_inside_of_instances(lanes: tuple[int | None, ...], axis: int) -> None:
    module = module_of([(4, 3, 6, 6)], towers)
    prepared, schedule = merging(module, axis, lanes)
    scheduled = apply_schedule(prepared, schedule)
    require_near(scheduled, module)
    functions = [f for v, f in scheduled.functions_items() if v.name_hint != "main"]
    kinds = [str(f).count("nn.conv2d(") for f in functions]
    # One for both in each instance, and one that reads from them.
    assert sorted(kinds)[-3:] == [1, 1, 1]
    assert sum(kinds) == 3


def test_a_merge_of_different_rows_is_refused() -> None:
    prepared, schedule = merging(module_of([(1, 3, 12, 6)], uneven_towers), 2, (0, 1))
    with refused(ScheduleError, "lv, lv1", "rows"):
        apply_schedule(prepared, schedule)


def merging(module: Any, axis: int, lanes: tuple[int | None, ...]) -> tuple[Prepared, Schedule]:
    """A schedule that merges two convolutions of a sub-graph, which is split into two."""
    prepared = prepare(module)
    units = prepared.units
    merged = [u for u in range(2) if units.operators[u].kind.startswith("conv2d")]
    others = tuple(range(len(merged), len(units)))
    stages = (
        Stage(Strategy.MERGE, tuple((u,) for u in merged)),
        *(Stage(Strategy.CONCURRENT, ((u,),)) for u in others),
    )
    outputs = subgraph_outputs(units, (*merged, *others[:-1]))
    plan = InstancePlan(
        (SplitSubGraph((*merged, *others[:-1]), 2, (axis,) * len(outputs)),),
        tuple(PlacedInstance(0, part, lane) for part, lane in zip((1, 0), lanes, strict=True)),
    )
    batch = units.batch
    return prepared, Schedule(units.fingerprint, stages, "by hand", batch=batch, instances=plan)


REFUSED: dict[str, tuple[Callable[[InstancePlan], InstancePlan], tuple[object, ...]]] = {
    "factor": (
        lambda p: replace(p, subgraphs=(replace(p.subgraphs[0], factor=3), *p.subgraphs[1:])),
        ("sub-graph 0", 3, "batch of 8"),
    ),
    "no split": (
        lambda p: replace(p, subgraphs=(replace(p.subgraphs[0], factor=1), *p.subgraphs[1:])),
        ("sub-graph 0", "1 instances"),
    ),
    "axis": (
        lambda p: replace(p, subgraphs=(replace(p.subgraphs[0], axes=(9,)), *p.subgraphs[1:])),
        ("sub-graph 0", "axis 9"),
    ),
    "axes": (
        lambda p: replace(p, subgraphs=(replace(p.subgraphs[0], axes=()), *p.subgraphs[1:])),
        ("sub-graph 0", "0 axes"),
    ),
    "channels": (
        lambda p: replace(p, subgraphs=(replace(p.subgraphs[0], axes=(1,)), *p.subgraphs[1:])),
        ("sub-graph 0", "axis 1"),
    ),
    "unit": (
        lambda p: replace(p, subgraphs=(replace(p.subgraphs[0], units=(99,)), *p.subgraphs[1:])),
        ("sub-graph 0", "unit 99"),
    ),
    "missing": (lambda p: replace(p, order=p.order[1:]), ("order", "lacks instance")),
    "twice": (lambda p: replace(p, order=(*p.order, p.order[0])), ("order", "instance 7")),
    "dependence": (lambda p: replace(p, order=p.order[::-1]), ("instance 0", "reads")),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(prepared: Prepared, case: str) -> None:
    change, named = REFUSED[case]
    schedule = graphturbo(prepared)
    assert schedule.instances is not None
    with refused(ScheduleError, *named):
        apply_schedule(prepared, replace(schedule, instances=change(schedule.instances)))


def test_refuses_another_batch(prepared: Prepared) -> None:
    other = prepare(module_of([(4, 3, 8, 8)], pyramid(4)))
    with refused(ScheduleError, "batch of 8", 4):
        apply_schedule(other, graphturbo(prepared))


def test_refuses_fewer_lanes(prepared: Prepared) -> None:
    scheduled = apply_schedule(prepared, graphturbo(prepared, lanes=4))
    with refused(ScheduleError, "more lanes than 2"):
        build(scheduled, lanes=2)


def test_refuses_stages_across_a_border(prepared: Prepared) -> None:
    schedule = graphturbo(prepared)
    assert schedule.instances is not None
    everything = (Stage(Strategy.CONCURRENT, (tuple(range(len(prepared.units))),)),)
    with refused(ScheduleError, "stage 0"):
        apply_schedule(prepared, replace(schedule, stages=everything))


def test_slices_from_the_last_to_the_first() -> None:
    def flipped(sketch: RelaxSketch, x: Any) -> Any:
        """An instance reads images of the other end, and rows up to the first."""
        begins, ends, steps = [3, 7, 6], [-5, -9, 1], [-1, -2, -1]
        moved = sketch.emit(relax.op.strided_slice(x, [0, 2, 3], begins, ends, steps))
        return sketch.emit(relax.op.nn.relu(sketch.conv(moved, 4)))

    module = module_of([(4, 3, 8, 8)], flipped)
    prepared = prepare(module)
    schedule = graphturbo(prepared, capacity=1)
    assert schedule.instances is not None
    require_near(apply_schedule(prepared, schedule), module)


def test_a_padding_of_which_less_is_needed() -> None:
    def shifted(sketch: RelaxSketch, x: Any) -> Any:
        """Rows and columns that a stride skips are padded on and cut off again."""
        padded = sketch.emit(relax.op.nn.pad(x, [0, 0, 0, 0, 0, 1, 0, 1]))
        moved = sketch.emit(relax.op.strided_slice(padded, [2, 3], [1, 1], [9, 9]))
        return sketch.conv(moved, 4, (1, 1), strides=2)

    module = module_of([(4, 3, 8, 8)], shifted)
    prepared = prepare(module)
    schedule = graphturbo(prepared, capacity=1)
    assert schedule.instances is not None
    require_near(apply_schedule(prepared, schedule), module)


def test_a_slice_of_everything_is_nothing_to_run() -> None:
    def sliced(sketch: RelaxSketch, x: Any) -> Any:
        """A split convolution, and units without instances, of which one takes all there is."""
        emit, ops = sketch.emit, relax.op
        split = emit(ops.nn.relu(sketch.conv(x, 4)))
        whole = emit(ops.strided_slice(emit(ops.cumsum(split, 0)), [0], [0], [4]))
        return emit(ops.add(emit(ops.cumsum(whole, 1)), whole))

    module = module_of([(4, 3, 8, 8)], sliced)
    prepared = prepare(module)
    units = prepared.units
    assert "slice" in [unit.kind for unit in units.operators]
    plan = InstancePlan((SplitSubGraph((0,), 2, (0,)),), tuple(map(_on_lane, range(2))))
    alone = sequential_stages(units)
    together = (*alone[:2], Stage(Strategy.CONCURRENT, (tuple(range(2, len(units))),)))
    for stages in (alone, together):
        schedule = Schedule(units.fingerprint, stages, "by hand", batch=4, instances=plan)
        require_near(apply_schedule(prepared, schedule), module)


def _on_lane(part: int) -> PlacedInstance:
    return PlacedInstance(0, part, part)
