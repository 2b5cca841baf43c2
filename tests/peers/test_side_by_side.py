"""Peers in a fresh process: compared before they are timed, left out if they cannot run."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from runtime_ext.execution.bound_model import Taken
from runtime_ext.peers.peer import PeerError
from runtime_ext.peers.registry import available_peers, installed_peers, peers_to_compare
from runtime_ext.peers.side_by_side import Outcome, SideBySide, run_side_by_side
from tests.refusals import refused
from tvm_ios.contest.rounds import run_in_turn
from tvm_ios.contest.rules import Rules
from tvm_ios.errors import UserError
from tvm_ios.progress import Progress, silent

RULES = Rules(rounds=3, seconds=1.0, minimum=3)


def beside(
    folder: Path, peer: str, model: str = "model.onnx", progress: Progress = silent
) -> Outcome:
    """The executable beside a peer."""
    file = folder / model
    runners = SideBySide({"ours": folder / "ours"}, 2, RULES, (peer,), onnx=file, simplified=file)
    return run_side_by_side(runners, progress)


def test_equal_results_are_timed(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    told: list[tuple[str, int, int]] = []
    outcome = beside(folder, "onnxruntime", progress=lambda *step: told.append(step))
    assert {name: len(samples) for name, samples in outcome.samples.items()} == {
        "ours": 3,
        "onnxruntime": 3,
    }
    assert outcome.reference == "onnxruntime"
    assert 0 < outcome.errors["ours"] <= 1e-5
    assert outcome.failed == {}
    assert told[0] == ("starting peers", 0, 1)
    assert told[-1] == ("timing runners", 3, 3)


def test_openvino_runs_too(folder: Path) -> None:
    pytest.importorskip("openvino")
    outcome = beside(folder, "openvino")
    assert outcome.reference == "openvino"
    assert outcome.errors["ours"] <= 1e-5
    (folder / "noise.onnx").write_bytes(b"noise")
    failed = beside(folder, "openvino", "noise.onnx").failed
    assert failed["openvino"].startswith("OpenVINO refuses the model: ")


@pytest.mark.parametrize("peer", ["openvino", "torch"])
@pytest.mark.slow
def test_peers_may_round_where_the_programs_may(folder: Path, peer: str) -> None:
    pytest.importorskip(peer)
    runners = SideBySide({"ours": folder / "ours"}, 2, RULES, (peer,), precision="bfloat16")
    file = folder / "model.onnx"
    outcome = run_side_by_side(replace(runners, onnx=file, simplified=file))
    assert outcome.reference == peer
    # What has no such instruction may stay in float32.
    assert outcome.errors["ours"] <= 2e-2
    assert peer == "openvino" or outcome.errors["ours"] > 1e-5


def test_torch_runs_too(folder: Path) -> None:
    pytest.importorskip("torch")
    outcome = beside(folder, "torch")
    assert outcome.reference == "torch"
    assert outcome.errors["ours"] <= 1e-5


def test_executorch_runs_too(folder: Path) -> None:
    pytest.importorskip("executorch")
    outcome = beside(folder, "executorch")
    assert outcome.reference == "executorch"
    assert outcome.errors["ours"] <= 1e-5
    assert outcome.taken == {"executorch": Taken()}


@pytest.mark.slow
def test_compiled_torch_runs_too(folder: Path) -> None:
    pytest.importorskip("torch")
    outcome = beside(folder, "torch-compile")
    assert outcome.reference == "torch-compile"
    assert outcome.errors["ours"] <= 1e-5


def test_different_results_are_not_timed(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    with refused(UserError, "ours", "onnxruntime", "differ"):
        beside(folder, "onnxruntime", "other.onnx")


def test_a_peer_that_fails_is_left_out(folder: Path) -> None:
    pytest.importorskip("onnxruntime")
    (folder / "noise.onnx").write_bytes(b"noise")
    outcome = beside(folder, "onnxruntime", "noise.onnx")
    assert list(outcome.samples) == ["ours"]
    assert outcome.reference == "ours"
    assert outcome.failed["onnxruntime"].startswith("ONNX Runtime refuses the model: ")


def test_without_our_own_program_there_is_no_contest(folder: Path) -> None:
    with refused(UserError, "ours", folder / "none"):
        run_side_by_side(SideBySide({"ours": folder / "none"}, 2, RULES))


def test_a_process_that_dies_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(folder))
    (folder / "onnxruntime.py").write_text("import os\nos._exit(7)\n")
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{Path(__file__).parents[2]}")
    with refused(UserError, "fresh process", "code 7"):
        beside(folder, "onnxruntime")
    (folder / "onnxruntime.py").unlink()


def test_unknown_peers_are_refused() -> None:
    with refused(PeerError, "'jax'", "onnxruntime, "):
        available_peers(["tvm", "jax"])
    with refused(PeerError, "torch-graph"):
        available_peers(["torch-graph"])
    assert [peer.name for peer in available_peers(["tvm", "tvm"])] == ["tvm"]


def test_those_that_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    there = {"onnxruntime": True, "torch": False, "openvino": False}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: there.get(name) or None)
    assert installed_peers() == ("onnxruntime", "tvm", "tvm-tuned")
    # What is not tuned says nothing of where a model stands.
    assert peers_to_compare(with_log=False) == ("onnxruntime",)
    assert peers_to_compare(with_log=True) == ("onnxruntime", "tvm-tuned")
    monkeypatch.setattr(importlib.util, "find_spec", find)
    assert set(installed_peers()) >= {"tvm"}


def test_warm_up_runs_do_not_count() -> None:
    runs: list[str] = []
    runners = {name: lambda name=name: runs.append(name) for name in "ab"}
    samples = run_in_turn(runners, Rules(rounds=2, seconds=1.0, minimum=2, warm_up=1))
    assert {name: len(seconds) for name, seconds in samples.items()} == {"a": 2, "b": 2}
    first, rest = runs[:2], runs[2:]
    assert first == [*"ab"]
    # Each run that counts follows one of the same runner.
    assert rest[::2] == rest[1::2]
    assert sorted(rest) == [*"aaaabbbb"]
