"""Tuning by AutoTVM: what is tried in which order, and the log that it is written to."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tvm import autotvm, relay

from relay_passes import SearchOptions
from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import prepare
from relay_passes.relay.target_units import RelayUnits
from runtime_ext.relay import trial_timer
from runtime_ext.relay.autotvm_task import AutotvmTask, default_index
from runtime_ext.relay.autotvm_tuner import tune
from runtime_ext.relay.library import host_target
from runtime_ext.relay.tune_model import tuning_tasks
from runtime_ext.relay.tuning_file import AutotvmRecord, open_autotvm_log
from runtime_ext.relay.tuning_log import TuningLogError, read_autotvm_log
from tests.brief import take_first_samples
from tests.refusals import refused
from tests.relay.relay_commands import RELAY, command
from tests.relay.relay_sketch import RelaySketch, module_of
from tests.relay.small_models import write_small_model
from tvm_ios.api.tune import model_to_tune, tune_module
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.measuring.tuning import TuningLimits
from tvm_ios.policies.policy import Limits

TARGET = host_target(2)


def _three(s: RelaySketch, x: Any) -> Any:
    """Two convolutions of one tensor, which merge, and one more like the first of them."""
    y = relay.nn.relu(x)
    left, right = s.conv(y, 16, 16), relay.nn.relu(s.conv(y, 16, 32, (1, 1)))
    return s.conv(left, 16, 16), right


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> tuple[AutotvmTask, ...]:
    prepared = prepare(module_of([(1, 16, 12, 96)], _three))
    options = SearchOptions(
        lanes=2, cache=tmp_path_factory.mktemp("cache"), limits=Limits(pruning=Pruning(1, 2))
    )
    return tuning_tasks(model_to_tune(MeasuredModule(RelayUnits(prepared, options))), TARGET)


class Pretended:
    """Times of configurations as a formula has them; some fail. Notes what was tried."""

    def __init__(self) -> None:
        self.rounds: list[tuple[Any, list[int]]] = []

    def __call__(self, task: Any, configs: Sequence[Any]) -> list[AutotvmRecord]:
        self.rounds.append((task, [config.index for config in configs]))
        return [
            (autotvm.MeasureInput(task.target, task, config), self.result(place, config.index))
            for place, config in enumerate(configs)
        ]

    def result(self, place: int, index: int) -> Any:
        failed = place % 3 == 2
        costs = ("", RuntimeError("failed")) if failed else (1e-4 + index * 1e-7,)
        return autotvm.MeasureResult(costs, 4 if failed else 0, 0.1, time.time())


def quiet(done: int, total: int, saved: float) -> None:
    """Report nothing."""


def test_the_tasks_are_those_of_units_and_merges(tasks: tuple[AutotvmTask, ...]) -> None:
    assert [(task.name, task.weight, task.merged) for task in tasks] == [
        ("conv2d_1", 2, 0),
        ("conv2d_3", 1, 0),
        ("conv2d_1+conv2d_3", 0, 1),
    ]
    assert tasks[2].text == "conv2d_NCHWc.x86 1x16x12x96, 48x16x3x3"
    # Padding counts for a little.
    assert 1 <= tasks[0].flops / (2 * 12 * 96 * 16 * 16 * 9) < 1.1


def test_the_default_is_what_tvm_takes_without_a_log(tasks: tuple[AutotvmTask, ...]) -> None:
    task = tasks[0].task
    index = default_index(task)
    assert index is not None
    with autotvm.FallbackContext() as fallback, task.target:
        fallback.silent = True
        task.func(*task.args)
        theirs = fallback.query(task.target, task.workload)
    ours = task.config_space.get(index)
    assert [tuple(ours[n].size[1:]) for n in ("tile_ic", "tile_oc")] == [
        tuple(theirs[n].size[1:]) for n in ("tile_ic", "tile_oc")
    ]


# With more than a round's trials AutoTVM's cost model chooses, which starts processes.
@pytest.mark.parametrize("trials", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_rounds_are_written_at_once_and_continued(
    tasks: tuple[AutotvmTask, ...], trials: int, tmp_path: Path
) -> None:
    timer, path = Pretended(), tmp_path / "logs" / "model.log"
    with open_autotvm_log(path, TARGET) as log:
        first = tune(tasks, log, timer, TuningLimits(trials), quiet)
    assert [row.trials for row in first] == [trials] * 3
    firsts: dict[Any, int] = {}
    for task, tried in timer.rounds:
        firsts.setdefault(task.workload, tried[0])
    assert [firsts[t.task.workload] for t in tasks] == [default_index(t.task) for t in tasks]
    weights = {t.task.workload: t.weight for t in tasks}
    assert all(weights[task.workload] for task, _ in timer.rounds[:2]), "the model's own first"
    for row in first:
        assert row.default is not None
        assert row.best <= row.default
    assert len(path.read_text().splitlines()) == 3 * trials

    again = Pretended()
    with open_autotvm_log(path, TARGET) as log:
        second = tune(tasks, log, again, TuningLimits(trials + 4), quiet)
    assert [(row.trials, row.new_trials) for row in second] == [(trials + 4, 4)] * 3
    tried = [
        (task.workload, index)
        for task, indices in (*timer.rounds, *again.rounds)
        for index in indices
    ]
    assert len(set(tried)) == len(tried) == 3 * (trials + 4), "nothing is tried twice"
    layouts: set[tuple[int, int]] = set()
    for line in path.read_text().splitlines():
        knobs = {name: value for name, _, value in json.loads(line)["config"]["entity"]}
        layouts.add((knobs["tile_ic"][-1], knobs["tile_oc"][-1]))
    assert len(layouts) == 1, "the default's layout, whatever it is on this machine"
    assert read_autotvm_log(path, TARGET).coverage(module_of([(1, 16, 12, 96)], _three)) == (2, 2)


def _blocks(task: Any, index: int) -> tuple[int, int]:
    config = task.config_space.get(index)
    return config["tile_ic"].size[-1], config["tile_oc"].size[-1]


def test_all_blocks_are_tried_if_asked_for(tmp_path: Path) -> None:
    prepared = prepare(module_of([(1, 2, 2, 2)], lambda s, x: s.conv(x, 2, 2)))
    options = SearchOptions(lanes=1, cache=tmp_path / "cache")
    search = MeasuredModule(RelayUnits(prepared, options))

    def tried(trials: int, **asked: bool) -> list[list[tuple[int, int]]]:
        """Blocks of what is tried in each round."""
        timer = Pretended()
        with open_autotvm_log(tmp_path / "log", search.units.backend.compiler.target) as log:
            (row,) = tune(
                tuning_tasks(model_to_tune(search), search.units.backend.compiler.target),
                log,
                timer,
                TuningLimits(trials),
                quiet,
                **asked,
            )
        found.append(row.trials)
        return [[_blocks(task, index) for index in indices] for task, indices in timer.rounds]

    found: list[int] = []
    assert tried(2) == [[(2, 2)] * 2]
    others = [(1, 1), (2, 1), (1, 2)]
    own, every = tried(99, all_blocks=True)
    assert own == [(2, 2)] * 2
    assert sorted(every) == sorted(others * 4)
    assert tried(99) == []
    assert found == [2, 16, 4], "of the others nothing is known to whom does not ask for them"


@pytest.mark.slow
def test_every_second_round_is_for_all_blocks(
    tasks: tuple[AutotvmTask, ...], tmp_path: Path
) -> None:
    timer = Pretended()
    with open_autotvm_log(tmp_path / "log", TARGET) as log:
        tune(tasks[1:2], log, timer, TuningLimits(40), quiet, all_blocks=True)
    first, second, third, *_ = (
        {_blocks(task, index) for index in indices} for task, indices in timer.rounds
    )
    assert first == third == {(16, 16)}
    assert len(second) > 2


def test_time_and_trials_are_limits(tasks: tuple[AutotvmTask, ...], tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with open_autotvm_log(tmp_path / "log", TARGET) as log:
        done = tune(
            tasks, log, Pretended(), TuningLimits(5, 0), lambda a, b, _: told.append((a, b))
        )
        assert done == ()
        found = tune(tasks, log, Pretended(), TuningLimits(5), lambda a, b, _: told.append((a, b)))
    assert told == [(0, 15), (0, 15), (5, 15), (10, 15), (15, 15)]
    assert [row.trials for row in found] == [5, 5, 5]


def test_a_killed_run_leaves_nothing_that_stands_in_the_way(
    tasks: tuple[AutotvmTask, ...], tmp_path: Path
) -> None:
    path = tmp_path / "log"
    with open_autotvm_log(path, TARGET) as log:
        tune(tasks[:1], log, Pretended(), TuningLimits(3), quiet)
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    with open_autotvm_log(path, TARGET) as log:
        assert (log.mended, len(log.records)) == (1, 2)
        with refused(TuningLogError, "another process"), open_autotvm_log(path, TARGET):
            pass
    assert path.read_bytes() == whole[: whole[:-1].rfind(b"\n") + 1]


@pytest.mark.parametrize("content", ["a shopping list", '{"a": 1}\n', "{\n"])
def test_other_files_are_refused_and_left_alone(content: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(content)
    with refused(TuningLogError, "line 1"), open_autotvm_log(path, TARGET):
        pass
    assert path.read_text() == content


def test_the_space_of_another_tvm_is_not_taken_for_ours(
    tasks: tuple[AutotvmTask, ...], tmp_path: Path
) -> None:
    path = tmp_path / "log"
    with open_autotvm_log(path, TARGET) as log:
        tune(tasks[:1], log, Pretended(), TuningLimits(2), quiet)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[1]["config"]["index"] = (rows[1]["config"]["index"] + 1) % 20
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with open_autotvm_log(path, TARGET) as log:
        (row,) = tune(tasks[:1], log, Pretended(), TuningLimits(1), quiet)
    assert row.trials == 1


def test_what_was_measured_is_a_run_that_came_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_first_samples(monkeypatch.setattr)
    monkeypatch.setattr(trial_timer, "TrialTimer", lambda: nullcontext(Pretended()))
    module = module_of([(1, 16, 4, 4)], lambda s, x: s.conv(x, 16, 16))
    options = SearchOptions(lanes=1, cache=tmp_path / "cache")
    done = tune_module(module, tmp_path / "log", options=options, trials=2)
    assert (len(done.kernels), done.missing, done.untouched) == (1, 0, 0)
    (log,) = (tmp_path / "cache" / "logs").glob("*.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    kinds = ["end" if line == {"run": "ended"} else "unit" for line in lines]
    assert kinds == ["unit", "end", "unit", "end"], "as TVM builds it, then with the tuning log"


@pytest.mark.slow
@pytest.mark.parametrize("given", [["--trials", 2], ["--trials", 8, "--all-blocks"]])
def test_tune_and_build_with_what_was_found(given: list[Any], tmp_path: Path) -> None:
    model, log = write_small_model(tmp_path), tmp_path / "small.log"
    options = ["--log", log, "--lanes", 2, "--json"]
    found = command("tune", model, *RELAY, *options, *given)
    assert found["missing"] == 0
    assert {row["new_trials"] for row in found["kernels"]} == {given[1]}
    assert any(row["merged"] for row in found["kernels"])
    assert found["latency_ms"]["tuned"] > 0
    where = ["--policy", "sequential", "-o", tmp_path / "out"]
    made = command("optimize", model, *RELAY, *options, *where)
    assert max(row["max_rel_error"] for row in made["policies"]) <= 1e-4
    assert made["search"]["tuned"] == {"found": 3, "used": 3, "missing": 0}
