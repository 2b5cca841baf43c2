"""Runners in a fresh process: compared before they are timed, left out if they cannot run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper

from relay_passes.ios_schedule import IOSSchedule
from relay_passes.relax.importer import import_onnx
from runtime_ext.build import build
from runtime_ext.contest import Rules, hold_contest
from runtime_ext.peers import EXECUTABLE, RunnerError, opponents
from runtime_ext.peers.side_by_side import Contestant, hold_side_by_side
from tests.refusals import refused
from tvm_ios.errors import UserError
from tvm_ios.models.load import load_onnx

RULES = Rules(rounds=3, seconds=1.0, minimum=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Inception block as an executable and as an ONNX file; and one with other weights."""
    folder = tmp_path_factory.mktemp("side_by_side")
    model = load_onnx("inception_block")
    scheduled = IOSSchedule("greedy", "v100").transform_module(import_onnx(model), None)
    build(scheduled, lanes=2).save(folder / "ours")
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for weight in model.graph.initializer:
        array = numpy_helper.to_array(weight)
        if array.ndim == 2:
            weight.CopyFrom(numpy_helper.from_array(array * np.float32(1.01), weight.name))
    (folder / "other.onnx").write_bytes(model.SerializeToString())
    return folder


def contestant(folder: Path, runner: str, file: str) -> Contestant:
    return Contestant(file if runner == EXECUTABLE.name else runner, runner, str(folder / file))


def test_equal_results_are_timed(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    told: list[tuple[str, int, int]] = []
    outcome = hold_side_by_side(
        [contestant(folder, "executable", "ours"), contestant(folder, "onnxruntime", "model.onnx")],
        2,
        RULES,
        lambda *step: told.append(step),
    )
    assert {name: len(found) for name, found in outcome.samples.items()} == {
        "ours": 3,
        "onnxruntime": 3,
    }
    assert outcome.reference == "onnxruntime"
    assert 0 < outcome.errors["ours"] <= 1e-5
    assert outcome.failed == {}
    assert told[0] == ("starting runners", 0, 2)
    assert told[-1] == ("timing runners", 3, 3)


def test_torch_runs_too(folder: Path) -> None:
    pytest.importorskip("torch")
    outcome = hold_side_by_side(
        [contestant(folder, "executable", "ours"), contestant(folder, "torch", "model.onnx")],
        2,
        RULES,
    )
    assert outcome.reference == "torch"
    assert outcome.errors["ours"] <= 1e-5


@pytest.mark.slow
def test_compiled_torch_runs_too(folder: Path) -> None:
    pytest.importorskip("torch")
    pair = [contestant(folder, "executable", "ours")]
    pair.append(contestant(folder, "torch-compile", "model.onnx"))
    assert hold_side_by_side(pair, 2, RULES).errors["ours"] <= 1e-5


def test_different_results_are_not_timed(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    pair = [contestant(folder, "executable", "ours")]
    pair.append(contestant(folder, "onnxruntime", "other.onnx"))
    with refused(UserError, "ours", "onnxruntime", "differ"):
        hold_side_by_side(pair, 2, RULES)


def test_a_runner_that_fails_is_left_out(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    (folder / "noise.onnx").write_bytes(b"noise")
    pair = [contestant(folder, "executable", "ours")]
    pair.append(contestant(folder, "onnxruntime", "noise.onnx"))
    outcome = hold_side_by_side(pair, 2, RULES)
    assert list(outcome.samples) == ["ours"]
    assert outcome.reference == "ours"
    assert outcome.failed["onnxruntime"].startswith("ONNX Runtime refuses the model: ")


def test_without_our_own_program_there_is_no_contest(folder: Path) -> None:
    with refused(UserError, folder / "none"):
        hold_side_by_side([Contestant("ours", "executable", str(folder / "none"))], 2, RULES)


def test_a_process_that_dies_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(folder))
    (folder / "onnxruntime.py").write_text("import os\nos._exit(7)\n")
    pytest.importorskip("onnxruntime")
    pair = [contestant(folder, "executable", "ours")]
    pair.append(contestant(folder, "onnxruntime", "model.onnx"))
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{Path(__file__).parents[2]}")
    with refused(UserError, "fresh process", "code 7"):
        hold_side_by_side(pair, 2, RULES)
    (folder / "onnxruntime.py").unlink()


def test_unknown_runners_are_refused() -> None:
    with refused(RunnerError, "'jax'", "onnxruntime, torch, torch-compile, tvm"):
        opponents(["tvm", "jax"])
    assert [runner.name for runner in opponents(["tvm", "tvm"])] == ["tvm"]


def test_warm_up_runs_do_not_count() -> None:
    runs: list[str] = []
    runners = {name: lambda name=name: runs.append(name) for name in "ab"}
    samples = hold_contest(runners, Rules(rounds=2, seconds=1.0, minimum=2, warm_up=1))
    assert {name: len(found) for name, found in samples.items()} == {"a": 2, "b": 2}
    first, rest = runs[:2], runs[2:]
    assert first == [*"ab"]
    # Each run that counts follows one of the same runner.
    assert rest[::2] == rest[1::2]
    assert sorted(rest) == [*"aaaabbbb"]
