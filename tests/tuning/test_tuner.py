"""Trials go where the model gains, are kept in the log, and are not made twice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from runtime_ext.cpu.kernel_timer import KernelTimer
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.levels import isa_of
from runtime_ext.kernels.cut import Blocking
from runtime_ext.kernels.spec import Contraction
from runtime_ext.tuning.contraction_task import ContractionTask
from runtime_ext.tuning.speed_model import SpeedModel
from runtime_ext.tuning.tuner import tune
from runtime_ext.tuning_log.folder import compact, open_log, recorded
from runtime_ext.tuning_log.log import TuningLog
from runtime_ext.tuning_log.space import noted, recut
from runtime_ext.units.plans import plan_unit
from runtime_ext.units.unit import UnitSource
from tests.kernels.kernel_harness import host_target, make_unit
from tests.refusals import refused
from tvm_ios.errors import UserError
from tvm_ios.measuring.tuning import TunedKernel, TuningLimits

pytest.importorskip("xgboost")
TARGET = tvm.target.Target(host_target())
UNIT = isa_of(TARGET)
SPACE = VectorSpace(UNIT)


def task(channels: int, out: int, weight: int = 1, merged: int = 0) -> ContractionTask:
    def body(emit: Any, x: Any, w: Any) -> Any:
        return relax.op.nn.conv2d(x, w)

    function = make_unit([(1, channels, 9, 10)], [(out, channels, 1, 1)], body)
    (kernel,) = plan_unit(UnitSource(function, ("NHWC", "NHWC")), SPACE).kernels
    assert isinstance(kernel.spec, Contraction)
    return ContractionTask(f"{channels}to{out}", kernel.spec, weight, merged)


class Bowl:
    """A timer with one fastest tile in a smooth landscape; counts and slows down."""

    def __init__(self, slower: float = 1.0) -> None:
        self.timed: list[tuple[int, Blocking]] = []
        self.batches: list[int] = []
        self.slower = slower

    def seconds(self, spec: Contraction) -> float:
        tile = spec.blocking
        distance = abs(tile.pixels - 5) / 5 + abs(tile.vectors - 2) + (tile.unroll != 4) / 4
        return 1e-6 * spec.channels * (1 + distance)

    def measure(self, specs: Sequence[Contraction]) -> list[float]:
        self.batches.append(len(specs))
        self.timed += [(spec.channels, spec.blocking) for spec in specs]
        return [self.seconds(spec) * self.slower for spec in specs]


def run(
    folder: Path, tasks: Sequence[ContractionTask], timer: Any, limits: TuningLimits
) -> tuple[tuple[TunedKernel, ...], list[tuple[int, int, float]]]:
    told: list[tuple[int, int, float]] = []
    with open_log(folder, TARGET) as log:
        model = SpeedModel(1)
        done = tune(tasks, log, TARGET, SPACE, timer, model, limits, lambda *now: told.append(now))
    return done, told


def test_the_cost_model_finds_the_fast_ones(tmp_path: Path) -> None:
    timer = Bowl()
    one = task(32, 64)
    (done,), told = run(tmp_path, [one], timer, TuningLimits(trials=64))
    every = SPACE.points(one.spec)
    assert len(every) > 300

    costs = sorted(timer.seconds(recut(one.spec, p, SPACE)) for p in every)
    assert done.best <= costs[len(costs) // 100], "among the fastest hundredth"
    assert done.best < done.default
    assert (done.trials, done.new_trials) == (64, 64)
    assert told[-1][:2] == (64, 64)
    saved = [now[2] for now in told]
    assert saved == sorted(saved)
    assert saved[-1] == pytest.approx(done.default - done.best)


def test_what_is_in_the_log_is_not_timed_again(tmp_path: Path) -> None:
    both = [task(32, 64), task(48, 64)]
    first = Bowl()
    run(tmp_path, both, first, TuningLimits(trials=20))
    assert len(recorded(tmp_path)) == 40
    second = Bowl(slower=1.5)
    done, told = run(tmp_path, both, second, TuningLimits(trials=24))
    assert told[0][:2] == (40, 48)
    assert [(row.trials, row.new_trials) for row in done] == [(24, 4), (24, 4)]
    assert len(recorded(tmp_path)) == 48
    defaults = {(t.spec.channels, SPACE.explicit(t.spec)) for t in both}
    again = {pair for pair in second.timed if pair in first.timed}
    assert again == defaults, "the defaults, for comparison only"
    third = Bowl()
    run(tmp_path, both, third, TuningLimits(trials=24))
    assert third.timed == []


def test_the_default_counts_as_it_was_timed_best(tmp_path: Path) -> None:
    one = task(32, 64)
    (before,), _ = run(tmp_path, [one], Bowl(slower=4.0), TuningLimits(trials=9))
    (after,), _ = run(tmp_path, [one], Bowl(), TuningLimits(trials=17))
    assert after.default == pytest.approx(before.default / 4)
    assert (after.trials, after.new_trials) == (17, 8)
    assert after.best <= after.default
    (later,), _ = run(tmp_path, [one], Bowl(slower=4.0), TuningLimits(trials=25))
    assert later.default == after.default


def test_a_compact_log_remembers_its_trials(tmp_path: Path) -> None:
    one = [task(32, 64)]
    (before,), _ = run(tmp_path, one, Bowl(), TuningLimits(trials=20))
    with open_log(tmp_path, TARGET) as log:
        compact(log)
    assert len(recorded(tmp_path)) == 2
    timer = Bowl()
    (after,), _ = run(tmp_path, one, timer, TuningLimits(trials=20))
    assert timer.timed == []
    assert (after.best, after.default) == (before.best, before.default)
    assert (after.trials, after.new_trials) == (20, 0)


def test_trials_go_where_the_model_gains(tmp_path: Path) -> None:
    heavy, light, merge = task(128, 64, weight=4), task(8, 16), task(16, 32, 0, merged=1)
    timer = Bowl()
    done, _ = run(tmp_path, [light, merge, heavy], timer, TuningLimits(trials=33))
    channels = [c for c, _ in timer.timed]
    assert channels[:2] == [8, 128], "defaults of the units first"
    assert set(channels[2:11]) == {128}, "then the first round"
    assert [row.trials for row in done] == [33, 33, 33]


def test_no_round_begins_after_the_time_is_up(tmp_path: Path) -> None:
    tasks = [task(32, 64), task(16, 32, 0, merged=1)]
    timer = Bowl()
    done, _ = run(tmp_path, tasks, timer, TuningLimits(trials=64, seconds=0.0))
    assert [(row.task.name, row.trials) for row in done] == [("32to64", 1)]


class Failing(Bowl):
    """A timer that has no time of blockings of some heights, nor of some contractions."""

    def __init__(self, heights: set[int], channels: frozenset[int] = frozenset()) -> None:
        super().__init__()
        self.heights, self.channels = heights, channels

    def seconds(self, spec: Contraction) -> float:
        if spec.blocking.pixels in self.heights or spec.channels in self.channels:
            return math.inf
        return super().seconds(spec)


def test_a_trial_that_fails_costs_itself_alone(tmp_path: Path) -> None:
    one = task(32, 64)
    heights = {p.pixels for p in SPACE.points(one.spec)} - {SPACE.explicit(one.spec).pixels}
    failing = Failing({min(heights), max(heights)})
    (done,), _ = run(tmp_path, [one], failing, TuningLimits(trials=60))
    failed = [each for each in failing.timed if each[1].pixels in failing.heights]
    assert 0 < len(failed) < 59
    assert len(failed) == len(set(failed)), "none is tried twice"
    assert len(recorded(tmp_path)) == done.trials == 60 - len(failed)
    assert done.best < done.default < 1
    again = Failing(failing.heights)
    run(tmp_path, [one], again, TuningLimits(trials=60))
    assert len(again.timed) > 0, "the next run may try again"


def test_a_contraction_without_a_default_is_given_up(tmp_path: Path) -> None:
    tasks = [task(32, 64), task(48, 64), task(16, 32, 0, merged=1)]
    timer = Failing(set(), frozenset({48, 16}))
    done, _ = run(tmp_path, tasks, timer, TuningLimits(trials=12))
    assert [(row.task.name, row.trials) for row in done] == [("32to64", 12)]
    assert [c for c, _ in timer.timed].count(48) == 2, "beside others and by itself"
    assert len(recorded(tmp_path)) == 12


def test_a_small_space_is_exhausted(tmp_path: Path) -> None:
    tiny = task(2, 8)
    every = SPACE.points(tiny.spec)
    (done,), told = run(tmp_path, [tiny], Bowl(), TuningLimits(trials=10_000))
    assert done.trials == len(every) == told[-1][1]


def test_real_kernels_are_timed_and_used(tmp_path: Path) -> None:
    one = task(24, 48)
    (done,), _ = run(tmp_path, [one], KernelTimer(TARGET, 2), TuningLimits(trials=4))
    assert 0 < done.best <= done.default < 1
    assert done.trials == 4
    log = TuningLog(tmp_path, TARGET)
    entry = log.blocking(one.spec, SPACE)
    assert entry is not None
    fastest = min(recorded(tmp_path), key=lambda trial: trial.seconds)
    notes = noted(fastest.trace)
    assert notes is not None
    best = SPACE.point(notes)
    assert fastest.seconds == pytest.approx(done.best)
    assert entry[1] == (one.spec.blocking if best == SPACE.explicit(one.spec) else best)
    assert log.blocking(task(25, 48).spec, SPACE) is None
    assert (len(log.matched), len(log.unmatched)) == (1, 1)


def test_features_tell_points_apart() -> None:
    spec = task(32, 64).spec
    every = SPACE.points(spec)
    features = SPACE.features(spec, every)
    assert np.isfinite(features).all()
    assert len(np.unique(features, axis=0)) == len(every)


def test_without_xgboost(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "xgboost", None)
    with refused(UserError, "xgboost", "pip install 'tvm-ios[tune]'"):
        SpeedModel(1)
