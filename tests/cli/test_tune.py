"""``tvm-ios tune``: a small real run, killed and continued, and what it refuses."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runtime_ext.machine.this_machine import host_target
from runtime_ext.tuning_log.folder import RECORDS, WORKLOADS, open_log, recorded
from tests.cli.command_line import tvm_ios, tvm_ios_process
from tests.onnx_sketch import Sketch

pytest.importorskip("xgboost")
SCRIPT = "from tvm_ios.__main__ import main; main()"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two convolutions that can be merged."""
    sketch = Sketch(1, 8, 6, 7)
    outputs = sketch.conv("x", 8, 16), sketch.conv("x", 8, 24, kernel=1)
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    path.write_bytes(sketch.model(*outputs).SerializeToString())
    return path


def test_its_time_limit_is_that_of_all_the_work(model: Path, tmp_path: Path) -> None:
    options = ["--log", tmp_path / "log", "--lanes", 2, "--seconds", 0.01, "--json"]
    kernels = tvm_ios("tune", model, *options).json["kernels"]
    assert {row["trials"] for row in kernels if row["weight"]} == {1}


def test_tune_and_continue(model: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    options = ["--log", log, "--lanes", 2, "--json"]
    first = tvm_ios("tune", model, *options, "--trials", 3).json
    assert list(first) == [
        "model",
        "tail",
        "log",
        "latency_ms",
        "kernels",
        "missing",
        "untouched",
        "mended",
        "failed",
        "seconds",
    ]
    assert first["model"] == "small"
    assert 0 < first["latency_ms"]["tuned"] <= first["latency_ms"]["default"]
    row = first["kernels"][0]
    keys = ["name", "kernel", "weight", "merged", "default_ms", "tuned_ms", "gflops", "trials"]
    assert list(row) == [*keys, "new_trials"]
    trials = [row["trials"] for row in first["kernels"]]
    assert trials == [3] * len(trials)
    assert any(row["merged"] for row in first["kernels"])
    # A default that was timed better later has a second record.
    assert sum(trials) <= len(recorded(log)) <= sum(trials) + len(trials)

    second = tvm_ios("tune", model, *options, "--trials", 4, "--compact").json
    assert [row["new_trials"] for row in second["kernels"]] == [1] * len(trials)
    for before, after in zip(first["kernels"], second["kernels"], strict=True):
        assert after["tuned_ms"] <= before["tuned_ms"]
        assert after["default_ms"] <= before["default_ms"]
    assert len(recorded(log)) <= 3 * len(trials)

    third = tvm_ios("tune", model, "--log", log, "--lanes", 2, "--trials", 4)
    assert third.code == 0
    assert "0 trials in" in third.stdout
    assert f"{sum(trials) + len(trials)} were in the log before" in third.stdout
    # A long path stands on several lines.
    assert f"(tvm-iosoptimize{model}--log{log})" in "".join(third.stdout.split())


@pytest.mark.slow
def test_a_killed_run_is_continued(model: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    options = ["tune", model, "--log", log, "--lanes", "2", "--trials", "500"]
    running = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *map(str, options)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 900
        while not (log / RECORDS).is_file() or (log / RECORDS).stat().st_size < 20_000:
            assert running.poll() is None, "it ended before it was killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        busy = tvm_ios("tune", model, "--log", log, "--lanes", 2)
        busy.refuses("another process")
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    with (log / RECORDS).open("ab") as stream:
        stream.write(b'[0,[[[["SampleCat')
    held = len((log / RECORDS).read_bytes().splitlines()) - 1
    assert held > 5
    result = tvm_ios("tune", model, "--log", log, "--lanes", 2, "--trials", 2, "--json").json
    assert sum(row["trials"] for row in result["kernels"]) > 5
    assert sum(row["new_trials"] for row in result["kernels"]) <= len(result["kernels"])
    assert result["mended"] == 1
    assert (log / RECORDS).read_bytes().endswith(b"\n")

    output = ["-o", tmp_path / "out", "--max-measurements", 0, "--lanes", 2]
    optimized = tvm_ios_process("optimize", model, "--log", log, *output, "--json").json
    use = optimized["search"]["tuned"]
    assert use["found"] == 3
    assert 0 <= use["used"] <= 3
    assert use["missing"] == 0
    assert max(row["max_rel_error"] for row in optimized["policies"]) <= 1e-4


def test_refusals(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_log(tmp_path / "four", host_target(4)):
        pass
    four = tvm_ios("tune", model, "--log", tmp_path / "four", "--lanes", 2)
    four.refuses("num-cores 4")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / WORKLOADS).write_text("nonsense\n")
    tvm_ios("tune", model, "--log", damaged, "--lanes", 2).refuses(damaged)
    taken = tmp_path / "file"
    taken.touch()
    tvm_ios("tune", model, "--log", taken, "--lanes", 2).refuses(taken)
    missing = tvm_ios("tune", "nothing.onnx", "--log", tmp_path / "new")
    missing.refuses("nothing.onnx")
    assert missing.stderr.count("\n") == 1, "no line for bars that never began"
    assert not (tmp_path / "new").exists()
    assert tvm_ios("tune", model, "--log", tmp_path / "new", "--trials", 0).code == 2
    assert tvm_ios("tune", model).code == 2
    monkeypatch.setitem(sys.modules, "xgboost", None)
    outcome = tvm_ios("tune", model, "--log", tmp_path / "new")
    outcome.refuses("pip install 'tvm-ios[tune]'")


def test_a_model_without_products_has_nothing_to_tune(tmp_path: Path) -> None:
    sketch = Sketch(1, 8, 6, 7)
    path = tmp_path / "small.onnx"
    path.write_bytes(sketch.model(sketch.op("Sqrt", sketch.op("Relu", "x"))).SerializeToString())
    outcome = tvm_ios("tune", path, "--log", tmp_path / "log", "--lanes", 1)
    assert outcome.code == 0, outcome.stderr
    assert "there is nothing to tune in small" in outcome.stdout
    assert len(outcome.stdout.splitlines()) == 1
