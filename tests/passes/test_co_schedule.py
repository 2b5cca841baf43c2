"""Co-scheduled stages from the search to what a session computes."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relax

from relay_passes import IOSSchedule, schedule_of
from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import apply_schedule, prepare, with_schedule
from relay_passes.prepared import Prepared
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.build import build
from runtime_ext.cpu import device as cpu_device
from runtime_ext.ir_form import attached_schedule
from runtime_ext.scheduled_module import ModuleError, read_scheduled_module
from tests.forced_schedules import merge_first
from tests.onnx_sketch import relative_error
from tests.refusals import refused
from tests.relax.relax_sketch import LANES, RelaxSketch, inputs_of, module_of, run, same_bits
from tvm_ios.costs.log_lines import LogError
from tvm_ios.errors import SearchError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.lazy import Budget
from tvm_ios.policies.policy import Limits
from tvm_ios.policies.rprogram_profile import RProgramProfile
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.program import Program
from tvm_ios.program.program_builder import LoweringError
from tvm_ios.program.program_json import program_to_json
from tvm_ios.rammer.rprogram import RProgram
from tvm_ios.rammer.wavefront import with_placements
from tvm_ios.schedule.schedule import Schedule, ScheduleError
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.schedule.waves import waves

op = relax.op


def body(s: RelaxSketch, x: Any) -> Any:
    """Two convolutions that can be merged beside a pool, and then another beside a pool."""
    first, second = s.conv(x, 8, (1, 1)), s.conv(x, 8, (1, 1))
    joined = s.emit(op.concat([first, second, s.emit(op.nn.max_pool2d(x, (1, 1)))], axis=1))
    pooled = s.emit(op.nn.max_pool2d(joined, (3, 3), padding=(1, 1)))
    return s.emit(op.concat([s.conv(joined, 8), pooled], axis=1))


@pytest.fixture(scope="module")
def module() -> tvm.IRModule:
    return module_of([(1, 6, 8, 8)], body)


@pytest.fixture(scope="module")
def prepared(module: tvm.IRModule) -> Prepared:
    return prepare(module)


@pytest.fixture(scope="module")
def search(
    prepared: Prepared, tmp_path_factory: pytest.TempPathFactory
) -> MeasuredModule[RelaxUnits]:
    options = SearchOptions(
        lanes=LANES,
        cache=tmp_path_factory.mktemp("co"),
        limits=Limits(budget=Budget(max_measurements=30)),
    )
    measured = MeasuredModule(RelaxUnits(prepared, options))
    measured.timer.compile_units()
    return measured


def check(module: tvm.IRModule, prepared: Prepared, schedule: Schedule) -> None:
    """The scheduled module computes what TVM computes, on both executors."""
    model = build(apply_schedule(prepared, schedule), lanes=LANES)
    check_races(model.program)
    inputs = inputs_of(module)
    assert relative_error(same_bits(model, inputs, 5), run(module, inputs)) <= 1e-4


def co_scheduled(search: MeasuredModule[RelaxUnits], prepared: Prepared) -> Schedule:
    """Merges first, so that units are numbered anew; all other stages are co-scheduled."""
    stages = tuple(
        stage
        if stage.strategy is Strategy.MERGE
        else Stage(Strategy.CO_SCHEDULE, (tuple(sorted(stage.units)),))
        for stage in merge_first(prepared).stages
    )
    schedule = Schedule(prepared.units.fingerprint, stages, "by hand")
    return with_placements(schedule, search.timer.rprogram, search.timer.rkernels)


@pytest.mark.parametrize("policy", ["rammer", "ios-holistic"])
def test_measured_policies_compute_the_same(
    policy: str, module: tvm.IRModule, prepared: Prepared, search: MeasuredModule[RelaxUnits]
) -> None:
    result = search.search.find(policy)
    schedule, statistics = result.schedule, result.statistics
    schedule.validate(prepared.units)
    assert schedule.policy == policy
    assert statistics is not None
    assert statistics.stages_measured
    assert len(schedule.latencies) == len(schedule.stages)
    if policy == "rammer":
        assert {stage.strategy for stage in schedule.stages} == {Strategy.CO_SCHEDULE}
    check(module, prepared, schedule)
    # A search may decide by a time that it measures again later: one that measured nothing counts.
    (log,) = search.options.cache.glob("logs/*.jsonl")
    before, again = b"", schedule
    while log.read_bytes() != before:
        before = log.read_bytes()
        again = MeasuredModule(search.units).search.find(policy).schedule
    last = MeasuredModule(search.units).search.find(policy).schedule
    assert last == again, "what was measured is taken from the log"


def test_units_are_found_again_after_others_were_merged(
    module: tvm.IRModule, prepared: Prepared, search: MeasuredModule[RelaxUnits]
) -> None:
    schedule = co_scheduled(search, prepared)
    schedule.validate(prepared.units)
    read = read_scheduled_module(apply_schedule(prepared, schedule))
    assert len(read.graph) < len(prepared.units)

    def placed(graph: OpGraph, stages: Iterable[Stage]) -> list[list[str]]:
        return [
            [graph.operators[share.unit].name for share in stage.placement or ()]
            for stage in stages
        ]

    assert any(placed(prepared.units, schedule.stages))
    assert placed(read.graph, read.stages) == placed(prepared.units, schedule.stages)
    check(module, prepared, schedule)


@pytest.mark.parametrize("policy", ["heft", "nimble", "opara"])
def test_streams_are_called_as_they_are_launched_and_compute_the_same(
    policy: str, module: tvm.IRModule, prepared: Prepared, search: MeasuredModule[RelaxUnits]
) -> None:
    schedule = search.search.find(policy, priced=True).schedule
    schedule.validate(prepared.units)
    ((stage,), (seconds,)) = schedule.stages, schedule.latencies
    assert len(stage.groups) > 1
    assert 0 < seconds < float("inf")
    (read,) = read_scheduled_module(apply_schedule(prepared, schedule)).stages
    place = {unit: number for number, unit in enumerate(stage.order)}
    assert read.order == tuple(range(len(stage.order)))
    assert read.groups == tuple(tuple(place[unit] for unit in group) for group in stage.groups)
    check(module, prepared, schedule)


def test_what_does_not_fit_is_one_sentence(
    prepared: Prepared, search: MeasuredModule[RelaxUnits]
) -> None:
    schedule = co_scheduled(search, prepared)
    scheduled = apply_schedule(prepared, schedule)
    with refused(LoweringError, "more lanes than 1"):
        build(scheduled, lanes=1)

    stage, first = next((n, s.placement[0]) for n, s in enumerate(schedule.stages) if s.placement)

    def broken(**changes: object) -> tvm.IRModule:
        return with_schedule(scheduled, {**(attached_schedule(scheduled) or {}), **changes})

    more = [[stage, [[first.unit, 0, 0, 0, 9999]]]]
    with refused(LoweringError, "rTasks"):
        build(broken(placements=more), lanes=LANES)
    with refused(LoweringError, "in it"):
        build(broken(placements=[[stage, [[999, 0, 0, 0, 1]]]]), lanes=LANES)
    with refused(ModuleError, "module"):
        build(broken(units=[]), lanes=LANES)
    with refused(ScheduleError, "schedule file"):
        build(broken(placements=3), lanes=LANES)


def test_a_spent_budget_leaves_the_simulation(
    module: tvm.IRModule, prepared: Prepared, search: MeasuredModule[RelaxUnits], tmp_path: Path
) -> None:
    options = replace(search.options, limits=Limits(budget=Budget(max_measurements=0)))
    result = MeasuredModule(RelaxUnits(prepared, options)).search.find("rammer")
    simulated, statistics = result.schedule, result.statistics
    assert statistics is not None
    assert (statistics.complete, statistics.stages_measured) == (False, 0)
    # Nothing that is simulated says that a wave should not be joined.
    assert len(simulated.stages) == 1
    check(module, prepared, simulated)


def test_programs_that_are_compared_are_all_measured_or_all_simulated() -> None:
    measured: list[RProgram] = []

    def measure(programs: Iterable[RProgram]) -> Iterator[float]:
        for program in programs:
            measured.append(program)
            yield 7.0

    def program(seconds: float) -> RProgram:
        return replace(RProgram.empty(1), clocks=(seconds,))

    told: list[int] = []
    profile = RProgramProfile(measure, Budget(max_measurements=3), told.append)
    first, second, third = program(1.0), program(2.0), program(3.0)
    assert profile((first, second)) == (7.0, 7.0)
    assert profile((first, program(4.0), program(5.0))) == (1.0, 4.0, 5.0)
    assert not profile.complete
    assert profile((second, third)) == (7.0, 7.0)
    assert measured == [first, second, third]
    assert told == [1, 2, 3]
    late = RProgramProfile(measure, Budget(time_limit=0.0), told.append)
    assert late((first,)) == (1.0,)
    assert not late.complete


def test_stage_keys_tell_placements_apart(
    prepared: Prepared, search: MeasuredModule[RelaxUnits]
) -> None:
    graph, timer = prepared.units, search.timer
    wave = next(w for w in waves(graph.predecessors, range(len(graph))) if len(w) > 1)
    stage = Stage(Strategy.CO_SCHEDULE, (wave,))
    key = timer.stage_key(graph, stage)
    assert timer.stage_key(graph, stage) == key
    assert timer.stage_key(graph, Stage(Strategy.CONCURRENT, tuple((u,) for u in wave))) != key
    program = timer.rprogram(stage)
    folded = replace(
        program, placement=tuple(replace(share, lane=0) for share in program.placement)
    )
    (seconds,) = timer.rprogram_latencies([program])
    before = timer.stages_measured
    assert next(timer.rprogram_latencies([folded])) > 0
    assert timer.stages_measured == before + 1
    assert timer.stage_latency(graph, stage) == seconds
    assert timer.stages_measured == before + 1


@pytest.mark.parametrize("seed", range(3))
def test_a_log_has_what_co_scheduling_needs(
    prepared: Prepared,
    search: MeasuredModule[RelaxUnits],
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the clocks say."""

    def drawn(program: Program, what: object, most: float) -> list[float]:
        return [
            random.Random(f"{seed} {what} {program_to_json(program)}").uniform(most / 3, most)
        ] * 3

    def profile(program: Program, function: Any) -> list[list[float]]:
        (lane,) = program.lanes
        return [drawn(program, place, 1e-6) for place in range(len(lane))]

    monkeypatch.setattr(cpu_device, "time_program", lambda program, _: drawn(program, "", 3e-6))
    monkeypatch.setattr(cpu_device, "profile_phases", profile)
    (tmp_path / "kernels").symlink_to(search.options.cache / "kernels")
    search = MeasuredModule(RelaxUnits(prepared, replace(search.options, cache=tmp_path)))
    measured = search.search.find("ios-holistic").schedule
    search.timer.sequential_latency()
    (log,) = (tmp_path / "logs").iterdir()
    recorded = search.recorded(log).find("ios-holistic").schedule
    recorded.validate(prepared.units)
    assert recorded.latency <= measured.latency * (1 + 1e-9)
    assert recorded.unit_latencies == measured.unit_latencies
    result = search.recorded(log).find("rammer")
    simulated, statistics = result.schedule, result.statistics
    simulated.validate(prepared.units)
    assert statistics is None
    # Without the times of rTasks there is nothing to place them by.
    lines = log.read_text().splitlines(keepends=True)
    bare = tmp_path / "bare.jsonl"
    bare.write_text("".join(line for line in lines if ", task of phase" not in line))
    with refused(LogError, "task of phase 0"):
        search.recorded(bare).find("ios-holistic")
    assert search.recorded(bare).find("ios-both").schedule.latencies


def test_a_described_device_simulates_rammer(prepared: Prepared, module: tvm.IRModule) -> None:
    for policy in ("rammer", "ios-holistic"):
        scheduled = IOSSchedule(policy, "cpu")(module)
        schedule = schedule_of(scheduled)
        assert schedule is not None
        assert (schedule.policy, schedule.device) == (policy, "cpu")
        assert schedule.latency > 0
        assert any(stage.placement is not None for stage in schedule.stages)
        # They are of the rTasks that are described, not of this machine's.
        with refused(LoweringError, "rTasks"):
            build(scheduled, lanes=LANES)

    class Unknowing:
        name = "unknowing"

        def stage_latency(self, graph: object, stage: Stage) -> float:
            return 1.0

    with refused(SearchError, "'rammer'", "rTasks", "'unknowing'"):
        IOSSchedule("rammer", Unknowing())(module)
