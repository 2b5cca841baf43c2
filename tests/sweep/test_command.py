"""``tvm-ios sweep`` as users see it: results, resuming, failures, kills."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import tvm_ios, tvm_ios_process
from tests.cli.test_interrupts import alive, wait_for
from tests.fast_run import one_in, only
from tests.onnx_sketch import save_small
from tests.sweep.held_devices import check_that_devices_are_held
from tests.sweep.sweep_package import odd_policies, sweep_file
from tvm_ios.costs.analytic import AnalyticCost
from tvm_ios.devices.device import load_device
from tvm_ios.models.load import load_graph
from tvm_ios.models.source import ModelSource
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.sweep.rows import COLUMNS
from tvm_ios.sweep.runners.processes import processes
from tvm_ios.sweep.runners.runner import ATTEMPTS


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with odd_policies(tmp_path, monkeypatch) as folder:
        yield folder


def swept(file: Path, *arguments: object, code: int = 0) -> dict[str, Any]:
    outcome = tvm_ios("sweep", file, "-o", file.parent / "out", "--json", *arguments)
    assert outcome.code == code, outcome.stderr
    assert outcome.stdout.count("\n") == 1
    return json.loads(outcome.stdout)


def stored(folder: Path, key: str) -> dict[str, Any]:
    return json.loads((folder / "out" / "tasks" / f"{key}.json").read_text())


def test_results_resuming_and_crossings(tmp_path: Path, notes: Path) -> None:
    keys: dict[str, Any] = {"batches": [1, 4], "memory": ["rpo"], "crossings": ["batches"]}
    models = ["inception_block"]
    file = sweep_file(tmp_path, models=models, policies=["counts", "ios-both"], **keys)
    first = swept(file, "--workers", 1)
    assert (first["tasks"], first["resumed"], first["failed"]) == (2 + 2 + 2 + 2, 0, 0)
    assert json.loads(Path(first["results"]).read_text())["tasks"] == first["rows"]
    assert all(list(row) == list(COLUMNS) for row in first["rows"])
    searches = {(r["policy"], r["batch"]): r for r in first["rows"] if r["kind"] == "search"}
    alone = tvm_ios("schedule", "inception_block", "--batch", 4, "--json").json
    assert searches["ios-both", 4]["latency_ms"] == pytest.approx(alone["latency_ms"])
    assert searches["ios-both", 4]["stages"] == len(alone["stages"])

    # The stages found for one batch, priced for the other.
    crossing = next(r for r in first["rows"] if r["kind"] == "crossing" and r["batch"] == 4)
    assert crossing["made_for_batch"] == 1
    graph = load_graph(ModelSource("inception_block", batch=4))
    found = stored(tmp_path, searches["ios-both", 1]["key"])["result"]["schedule"]
    stages = Schedule.from_json(found).stages
    seconds = AnalyticCost(load_device("v100")).stage_latencies(graph, stages).sum()
    assert crossing["latency_ms"] == pytest.approx(seconds * 1e3)
    own = searches["ios-both", 4]["latency_ms"]
    assert crossing["to_specialised"] == pytest.approx(crossing["latency_ms"] / own)
    assert crossing["to_specialised"] >= 1

    # A third batch: what is finished stays so.
    file = sweep_file(
        tmp_path, models=models, policies=["counts", "ios-both"], **{**keys, "batches": [1, 2, 4]}
    )
    second = swept(file, "--workers", 1)
    assert (second["tasks"], second["resumed"]) == (3 + 3 + 6 + 3, first["tasks"])
    batches = [line.split()[1] for line in (notes / "counts").read_text().splitlines()]
    assert sorted(batches) == ["1", "2", "4"]
    assert swept(file)["resumed"] == second["tasks"]
    # A result that someone has damaged is found again.
    key = searches["counts", 1]["key"]
    (tmp_path / "out" / "tasks" / f"{key}.json").write_text('{"format": ')
    assert swept(file)["resumed"] == second["tasks"] - 1
    assert stored(tmp_path, key)["result"]["stages"] == searches["counts", 1]["stages"]


def test_failures_kills_and_prints_stop_no_other_task(tmp_path: Path, notes: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    file = sweep_file(
        tmp_path,
        models=["lstm_small", "broken.onnx"],
        policies=["dies-once", "fails", "breaks", "counts"],
        exclude=[{"model": "broken.onnx", "policy": ["dies-once", "fails", "breaks"]}],
    )
    result = swept(file, "--workers", 2, code=1)
    errors = {(row["model"], row["policy"]): row["error"] for row in result["rows"]}
    assert [who for who, error in errors.items() if error is None] == [
        ("lstm_small", "dies-once"),
        ("lstm_small", "counts"),
    ]
    assert "this policy finds nothing" in errors["lstm_small", "fails"]
    assert "KeyError" in errors["lstm_small", "breaks"]
    assert "broken.onnx is not a valid ONNX model" in errors["broken.onnx", "counts"]
    assert result["failed"] == 3
    assert len((notes / "dies-once").read_text().splitlines()) == 2
    # What failed is tried again, and nothing else.
    (notes / "counts").unlink()
    again = swept(file, "--workers", 1, code=1)
    assert again["resumed"] == 2
    assert not (notes / "counts").exists()


@pytest.mark.slow
def test_a_task_that_kills_every_worker(tmp_path: Path, notes: Path) -> None:
    file = sweep_file(tmp_path, policies=["dies", "counts"])
    result = swept(file, "--workers", 1, code=1)
    killed, counted = result["rows"]
    assert f"{ATTEMPTS} workers" in killed["error"]
    assert counted["error"] is None
    assert len((notes / "dies").read_text().splitlines()) == ATTEMPTS


@pytest.mark.slow
def test_a_table_and_a_sentence_for_each_failure(tmp_path: Path, notes: Path) -> None:
    file = sweep_file(tmp_path, policies=["fails", "counts"], memory=["rpo"])
    outcome = tvm_ios_process("sweep", file, "-o", tmp_path / "out", "--workers", 1)
    assert outcome.code == 1
    assert "failed" in outcome.stdout
    assert "rpo" in outcome.stdout
    assert "nobody asked" not in outcome.stdout
    assert outcome.stderr.count("this policy finds nothing") == 1


@pytest.mark.slow
def test_devices_are_held(notes: Path) -> None:
    with processes(3) as runner:
        check_that_devices_are_held(runner, notes)


@pytest.mark.parametrize("number", one_in(2, [signal.SIGINT, signal.SIGKILL]))
def test_workers_end_with_the_command(tmp_path: Path, notes: Path, number: signal.Signals) -> None:
    file = sweep_file(tmp_path, policies=["waits"])
    heard = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    script = f"{heard}from tvm_ios.__main__ import main\nmain()"
    # A worker imports the command's own script again.
    (tmp_path / "command.py").write_text(
        "".join(["if __name__ == '__main__':\n", *(f"    {s}\n" for s in script.splitlines())])
    )
    command = [sys.executable, tmp_path / "command.py", "sweep", file, "-o", tmp_path / "out"]
    process = subprocess.Popen(
        list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    wait_for(process, (notes / "waits").exists)
    worker = int((notes / "waits").read_text().split()[0])
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert out == ""
    if number is signal.SIGINT:
        assert process.returncode == 130
        assert err.splitlines()[-1].startswith("tvm-ios: interrupted")
    deadline = time.monotonic() + 300
    while alive(worker):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_sweep_a_folder(tmp_path: Path) -> None:
    from tvm_ios.sweep.finished import results_folder

    file = sweep_file(tmp_path)
    with results_folder(tmp_path / "out"):
        tvm_ios("sweep", file, "-o", tmp_path / "out").refuses(tmp_path / "out")


def test_what_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = sweep_file(tmp_path)
    for package in ("ray", "pyarrow"):
        monkeypatch.setitem(sys.modules, package, None)
    command = ("sweep", file, "-o", tmp_path / "out")
    tvm_ios(*command, "--address", "local").refuses("tvm-ios[ray]")
    tvm_ios(*command, "--format", "parquet").refuses("pyarrow", "--format json")


def test_a_fleet_needs_a_tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TVM_TRACKER_HOST", raising=False)
    command = ("sweep", sweep_file(tmp_path), "-o", tmp_path / "out")
    assert tvm_ios(*command, "--tracker", "127.0.0.1:1").code == 2
    sweep_file(tmp_path, devices=["fleet:pi"])
    assert tvm_ios(*command).code == 2
    tvm_ios(*command, "--tracker", "nowhere").refuses("nowhere", "HOST:PORT")
    tvm_ios(*command, "--tracker", "127.0.0.1:1").refuses("127.0.0.1:1", "tracker")


@pytest.mark.parametrize("workers", only([2], [1, 2]))
def test_a_model_is_read_by_one_worker(tmp_path: Path, workers: int) -> None:
    file = sweep_file(
        tmp_path, batches=[1, 2, 3, 4], devices=["v100", "k80"], policies=["sequential", "greedy"]
    )
    rows = swept(file, "--workers", workers)["rows"]
    readers = [{row["worker"] for row in rows if row["batch"] == batch} for batch in range(1, 5)]
    assert len(set.union(*readers)) == workers
    # At the end nobody is idle, so that one model may have both.
    assert sum(map(len, readers)) <= 4 + workers - 1


def test_parquet(tmp_path: Path) -> None:
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    save_small(tmp_path)
    file = sweep_file(tmp_path, models=["small.onnx"], memory=["rpo"])
    result = swept(file, "--format", "parquet", "--workers", 1)
    table = parquet.read_table(tmp_path / "out" / "results.parquet")
    assert table.to_pylist() == result["rows"]
    assert (
        dict(zip(table.column_names, map(str, table.schema.types), strict=True))["program_ms"]
        == "double"
    )


@pytest.mark.slow
def test_measured_here(tmp_path: Path) -> None:
    save_small(tmp_path)
    file = sweep_file(
        tmp_path,
        models=["small.onnx"],
        devices=["v100", "here"],
        policies=["sequential", "ios-both", "rammer"],
        crossings=["devices"],
        max_measurements=5,
    )
    result = swept(file)
    here = [row for row in result["rows"] if row["device"] == "here"]
    assert len(here) == 3 + 2
    assert all(row["program_ms"] > 0 and row["to_sequential"] > 0 for row in here)
    assert next(r for r in here if r["policy"] == "sequential")["to_sequential"] == 1
    assert swept(file)["resumed"] == result["tasks"]
