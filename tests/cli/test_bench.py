"""``bench`` on the smallest network of the zoo, as a user meets it."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import Outcome, tvm_ios, tvm_ios_briefly

pytest.importorskip("onnxruntime")

AGAINST = ["onnxruntime", "tvm"]
#: The sequential program, which alone is built, does not run beside itself.
RUNNERS = ["ours", *AGAINST]
OPTIONS = ["--lanes", 2, "--policy", "sequential", "--rounds", 6, "--processes", 2]
OPTIONS += ["--against", ",".join(AGAINST)]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds the kept executables and the results."""
    return tmp_path_factory.mktemp("bench")


@pytest.fixture(scope="session")
def measured(folder: Path) -> Outcome:
    files = ["--keep", folder / "kept", "--output", folder / "bench.json"]
    return tvm_ios_briefly("bench", "inception_block", *OPTIONS, *files, "--json")


def test_the_document(measured: Outcome, folder: Path) -> None:
    document = measured.json
    assert list(document) == ["machine", "settings", "networks", "geomean", "failed"]
    assert document["failed"] == []
    (network,) = document["networks"]
    assert (network["model"], network["batch"]) == ("inception_block", 1)
    assert network["kept"] == "sequential"
    assert list(network["latency_ms"]) == RUNNERS
    assert min(network["latency_ms"].values()) > 0
    assert list(network["ratio"]) == ["sequential", *AGAINST]
    assert network["ratio"]["sequential"] == {"median": 1, "low": 1, "high": 1, "pairs": 0}
    for ratio in (network["ratio"][name] for name in AGAINST):
        assert list(ratio) == ["median", "low", "high", "pairs"]
        assert 0 < ratio["low"] <= ratio["median"] <= ratio["high"]
        assert ratio["pairs"] == 6
    assert network["reference"] == "onnxruntime"
    assert network["verified"].startswith("ONNX Runtime 1")
    assert network["max_rel_error"]["onnxruntime"] == 0
    assert network["taken"] == {name: {"operators": 1, "multiply_adds": 1} for name in AGAINST}
    assert max(network["max_rel_error"].values()) <= 1e-5
    assert network["max_rel_error"]["tvm"] > 0, "different kernels round differently"
    for runner, mean in document["geomean"].items():
        assert math.isclose(mean, network["ratio"][runner]["median"])
    assert json.loads((folder / "bench.json").read_text()) == document


def test_the_machine(measured: Outcome) -> None:
    machine = measured.json["machine"]
    assert machine["lanes"] == 2
    assert {"processor", "cpus", "mhz", "caches", "memory_gib", "system", "date"} <= set(machine)
    assert machine["versions"]["onnxruntime"]
    assert list(machine["peak"]) == ["1", "2"]
    assert min(machine["peak"]["2"].values()) > 0


def test_progress_goes_to_stderr(measured: Outcome) -> None:
    assert "timing runners" in measured.stderr


def test_kept_executables_run_and_are_used_again(measured: Outcome, folder: Path) -> None:
    kept = folder / "kept" / "inception_block"
    assert {path.name for path in kept.iterdir()} == {
        *("ours", "sequential", "model.onnx", "simplified.onnx", "tvm.so", "request.json")
    }
    before = {path.name: path.stat().st_mtime_ns for path in kept.iterdir()}
    outcome = tvm_ios(
        "bench", "inception_block", *OPTIONS, "--keep", folder / "kept", "--against", "onnxruntime"
    )
    assert outcome.code == 0, outcome.stderr
    for name in ("inception_block", "ours (sequential)", "onnxruntime", "geometric mean"):
        assert name in outcome.stdout
    assert "building" not in outcome.stderr
    assert {path.name: path.stat().st_mtime_ns for path in kept.iterdir()} == before
    outputs = [
        tvm_ios("run", kept / name, "--repeat", 1, "--json").json["outputs"]["output"]["shape"]
        for name in ("ours", "sequential")
    ]
    assert outputs == [[1, 10], [1, 10]]


@pytest.mark.slow
def test_tvms_own_build_is_made_only_where_a_peer_reads_it(folder: Path) -> None:
    few = ["--rounds", 6, "--processes", 1, "--against", "onnxruntime"]
    kept = ["--keep", folder / "without", "--policy", "sequential"]
    stale = folder / "without" / "inception_block" / "tvm.so"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"of an earlier request")
    outcome = tvm_ios("bench", "inception_block", "--lanes", 2, *kept, *few)
    assert outcome.code == 0, outcome.stderr
    assert {path.name for path in (folder / "without" / "inception_block").iterdir()} == {
        *("ours", "sequential", "model.onnx", "simplified.onnx", "request.json")
    }
    # What was made without it is not enough where a peer does.
    outcome = tvm_ios("bench", "inception_block", "--lanes", 2, *kept, *few[:-1], "tvm")
    assert outcome.code == 0, outcome.stderr
    assert (folder / "without" / "inception_block" / "tvm.so").exists()


def test_one_model_fails_and_the_others_go_on(measured: Outcome, folder: Path) -> None:
    missing = folder / "missing.onnx"
    models = ["inception_block", missing]
    files = ["--keep", folder / "kept", "--output", folder / "two.json"]
    shutil.copyfile(folder / "bench.json", folder / "two.json")
    outcome = tvm_ios("bench", *models, *OPTIONS, *files, "--resume", "--json")
    assert outcome.code == 1
    document: dict[str, Any] = json.loads(outcome.stdout)
    assert document["networks"] == measured.json["networks"], "it was resumed, not measured again"
    (failure,) = document["failed"]
    assert (failure["model"], failure["runner"]) == ("missing", None)
    first, *_, last = [s for s in outcome.stderr.splitlines() if s.startswith("tvm-ios: ")]
    assert "missing.onnx" in first, "before anything is measured"
    assert last == f"tvm-ios: missing: {failure['error']}"
    assert "missing.onnx" in failure["error"]
    assert json.loads((folder / "two.json").read_text()) == document


def test_other_options_are_not_resumed(measured: Outcome, folder: Path) -> None:
    files = ["--output", folder / "bench.json", "--resume"]
    outcome = tvm_ios("bench", "inception_block", *OPTIONS, "--seconds", 3, *files)
    outcome.refuses("--output", "--resume")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--against", "onnxruntime,jax"], "'jax' is none of onnxruntime, openvino, torch"),
        (["--policy", "best"], "'best' is none of sequential, greedy"),
        (["--resume"], "there is no --output to resume"),
        (["--rounds", 2], "--rounds"),
    ],
)
def test_wrong_uses(arguments: list[object], message: str) -> None:
    outcome = tvm_ios("bench", "inception_block", *arguments)
    assert outcome.code == 2
    assert outcome.stdout == ""
    assert message in " ".join(outcome.stderr.replace("│", "").split())


@pytest.mark.parametrize(
    ("library", "runner", "extra"),
    [
        ("onnxruntime", "onnxruntime", "bench"),
        ("torch", "torch-compile", "torch"),
        ("executorch", "executorch", "executorch"),
    ],
)
def test_a_missing_library(
    library: str, runner: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec

    def find_others(name: str, *rest: Any) -> Any:
        return None if name == library else find(name, *rest)

    monkeypatch.setattr(importlib.util, "find_spec", find_others)
    outcome = tvm_ios("bench", "no such model", "--against", runner)
    outcome.refuses(runner, library, f"pip install 'tvm-ios[{extra}]'")


def test_a_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("PATH", "")
    outcome = tvm_ios("bench", "inception_block", "--against", "torch-compile")
    outcome.refuses("torch-compile", "g++", "PATH")


def test_a_missing_tuning_log() -> None:
    """Before anything is measured."""
    outcome = tvm_ios("bench", "no such model", "--against", "tvm-tuned")
    outcome.refuses("tvm-tuned", "--log", "MetaScheduleTuneIRMod")


def test_an_unreadable_model(tmp_path: Path) -> None:
    model = tmp_path / "noise.onnx"
    model.write_bytes(b"\x00\xff" * 50)
    tvm_ios("bench", model, "--against", "tvm").refuses("noise.onnx")


def test_an_unwritable_output(tmp_path: Path) -> None:
    """Found before anything is measured."""
    outcome = tvm_ios("bench", "no such model", "--against", "tvm", "--output", tmp_path)
    outcome.refuses(tmp_path, "folder")
    (tmp_path / "file").touch()
    below = tmp_path / "file" / "bench.json"
    outcome = tvm_ios("bench", "no such model", "--against", "tvm", "--output", below)
    outcome.refuses(tmp_path / "file")


def test_two_models_of_one_name(tmp_path: Path) -> None:
    outcome = tvm_ios("bench", "resnet50", tmp_path / "resnet50.onnx", "--against", "tvm")
    outcome.refuses("resnet50")


@pytest.mark.slow
def test_requests_a_second(folder: Path) -> None:
    options = ["--lanes", 2, "--policy", "sequential", "--rounds", 6, "--processes", 2]
    options += ["--objective", "throughput", "--against", "onnxruntime", "--seconds", 1]
    files = ["--keep", folder / "served", "--output", folder / "served.json"]
    command = ("bench", "inception_block", *options, *files)
    document = tvm_ios_briefly(*command, "--json").json
    assert document["settings"]["objective"] == "throughput"
    (network,) = document["networks"]
    peers = ["onnxruntime 2 x 1", "onnxruntime 1 x 2"]
    for figure in ("requests_a_second", "p50_ms", "p99_ms", "requests", "max_rel_error"):
        assert list(network[figure]) == ["ours", *peers]
    assert min(network["requests_a_second"].values()) > 0
    assert all(0 < network["p50_ms"][name] <= network["p99_ms"][name] for name in peers)
    assert list(network["ratio"]) == list(document["geomean"]) == peers
    assert (network["reference"], network["in_flight"]) == (peers[0], 4)
    assert network["kept"] in ("in-turn", "side-by-side", "one-lane")
    assert max(network["max_rel_error"].values()) <= 1e-5
    assert json.loads((folder / "served.json").read_text()) == document
    # What is there is neither made nor measured again.
    again = tvm_ios(*command, "--resume")
    assert again.code == 0, again.stderr
    for told in ("2 x 1", "1 x 2", f"{network['workers']} at once", "4 requests were in flight"):
        assert told in again.stdout
    assert "serving requests" not in again.stderr


@pytest.mark.parametrize(
    ("option", "value", "named"), [("--against", "tvm", "tvm"), ("--device", "none", "--device")]
)
def test_what_serves_no_requests(option: str, value: str, named: str) -> None:
    found = tvm_ios("bench", "inception_block", "--objective", "throughput", option, value)
    assert found.code != 0
    assert named in found.stderr
