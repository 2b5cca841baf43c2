"""The policies that run instances, measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tvm import relax

from relay_passes.dialect import DialectError
from relay_passes.instances import apply as instance_schedule
from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext import whole_programs
from tests.forced_schedules import merge_first
from tests.relax.relax_sketch import LANES, RelaxSketch, module_of, pyramid, require_near
from tvm_ios.contest import rules
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.ios.lazy import Budget
from tvm_ios.policies import holistic as policies
from tvm_ios.policies.policy import Found, Limits
from tvm_ios.program.program_builder import LoweringError
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Strategy


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fewest rounds."""
    for name in ("CHOICE", "SECOND_CHOICE", "PROFILE"):
        monkeypatch.setattr(rules, name, replace(getattr(rules, name), seconds=0.0))


def searching(module: Any, **limits: Any) -> MeasuredModule[RelaxUnits]:
    options = SearchOptions(
        lanes=LANES,
        limits=Limits(pruning=Pruning(1, 2), budget=Budget(max_measurements=1, **limits)),
    )
    return MeasuredModule(RelaxUnits(prepare(module), options))


def require_equal(search: MeasuredModule[RelaxUnits], schedule: Schedule, module: Any) -> None:
    schedule.validate(search.graph)
    require_near(apply_schedule(search.prepared, schedule), module)


@pytest.mark.usefixtures("quick")
def test_policies_of_a_batch(tmp_path: Path) -> None:
    module = module_of([(4, 3, 8, 8)], pyramid(4))
    search = searching(module)
    result = search.search.find("graphturbo")
    schedule, statistics = result.schedule, result.statistics
    assert schedule.policy == "graphturbo"
    # All of it fits any cache: each lane runs its part of the batch.
    assert schedule.instances is not None
    assert [s.factor for s in schedule.instances.subgraphs] == [LANES]
    assert statistics is not None
    assert statistics.candidates
    assert (statistics.states, statistics.transitions, statistics.stages_measured) == (
        None,
        None,
        None,
    )
    require_equal(search, schedule, module)
    mixed = search.search.find("holistic").schedule
    assert mixed.policy == "holistic"
    require_equal(search, mixed, module)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("gains", [True, False])
def test_holistic_is_sequential_unless_the_interval_of_another_is_below_one(
    monkeypatch: pytest.MonkeyPatch, gains: bool
) -> None:
    def contest(runners: Any, *_: Any) -> dict[str, list[float]]:
        others = [0.9] * 7 if gains else [0.9] * 4 + [1.1] * 3
        return {name: [1.0] * 7 if name == "sequential" else others for name in runners}

    search = searching(module_of([(4, 3, 8, 8)], pyramid(4)))
    monkeypatch.setattr(whole_programs, "run_in_turn", contest)
    assert search.search.find("graphturbo").schedule.instances is not None
    mixed = search.search.find("holistic").schedule
    sequential = search.timer.timed(search.search.find("sequential").schedule)
    assert (mixed.content == sequential.content) is not gains


@pytest.mark.usefixtures("quick")
def test_of_one_image_at_most_rows_are_split() -> None:
    search = searching(module_of([(1, 3, 8, 8)], pyramid(1))).search
    plan = search.find("graphturbo").schedule.instances
    assert plan is None or {axis for s in plan.subgraphs for axis in s.axes} == {2}


@pytest.mark.usefixtures("quick")
def test_a_time_limit_ends_the_search() -> None:
    search = searching(module_of([(4, 3, 8, 8)], pyramid(4)), time_limit=0.0)
    result = search.search.find("graphturbo")
    assert result.schedule.instances is None
    assert result.statistics is not None
    assert not result.statistics.complete
    assert search.search.out_of_time


@pytest.mark.usefixtures("quick")
def test_splits_that_cannot_be_built_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise DialectError("the batch is written down")

    monkeypatch.setattr(instance_schedule, "planned_instances", refuse)
    result = searching(module_of([(4, 3, 8, 8)], pyramid(4))).search.find("graphturbo")
    assert result.schedule.instances is None
    assert result.statistics is not None
    assert result.statistics.candidates == 0
    assert set(result.left_out) == {"the batch is written down"}


@pytest.mark.usefixtures("quick")
def test_a_mixture_that_cannot_be_built_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    search = searching(module_of([(4, 3, 8, 8)], pyramid(4)))
    build = search.units.build

    def refusing(schedule: Schedule, *others: Any) -> Any:
        if schedule.policy == "holistic":
            raise LoweringError("its tiles are others")
        return build(schedule, *others)

    def mixing(_: Any, measured: Any, policy: str) -> Schedule:
        # Like none of those that it is made of.
        schedule = measured[0].schedule
        return replace(schedule, policy=policy, stages=schedule.stages[::-1])

    monkeypatch.setattr(search.units, "build", refusing)
    monkeypatch.setattr(policies, "mix", mixing)
    monkeypatch.setattr(search.timer, "timed", lambda schedule: schedule)
    result = search.search.find("holistic")
    result.schedule.validate(search.graph)
    assert "its tiles are others" in result.left_out


def towers(sketch: RelaxSketch, x: Any) -> Any:
    """Two convolutions that can be merged, joined."""
    left, right = (sketch.conv(x, 4, (k, 3)) for k in (1, 3))
    y = sketch.emit(relax.op.concat([left, right], axis=1))
    both = [sketch.emit(op(y)) for op in (relax.op.nn.relu, relax.op.sigmoid)]
    return sketch.emit(relax.op.add(*both))


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_holistic_tries_merged_convolutions_inside_of_instances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = module_of([(4, 3, 8, 8)], towers)
    search = searching(module)
    built: list[Schedule] = []
    find, build = search.search.find, search.units.build

    def merging(policy: str) -> Found:
        return Found(merge_first(search.prepared)) if policy == "ios-both" else find(policy)

    def keeping(schedule: Schedule, *others: Any) -> Any:
        built.append(schedule)
        return build(schedule, *others)

    monkeypatch.setattr(search.search, "find", merging)
    monkeypatch.setattr(search.units, "build", keeping)
    assert not find("holistic").left_out
    inside = [m for m in built if m.instances and m.stages[0].strategy is Strategy.MERGE]
    assert inside
    require_equal(search, inside[0], module)
