"""Entries of what others recorded: results of a bundle that was run, and logs of searches."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime_ext.execution.executable import Executable, load
from tests.cli.command_line import tvm_ios
from tvm_ios.costs.log_lines import read_header

MODEL = "two_inputs"


def schedule_of(app: Path, entry: str) -> object:
    """The stages of an entry's schedule."""
    program = load(app / "entries" / entry)
    assert isinstance(program, Executable)
    return program.schedule["stages"]


@pytest.mark.slow
def test_a_bundle_that_was_run_makes_the_entry_that_it_kept(tmp_path: Path) -> None:
    bundle, results, app = tmp_path / "bundle", tmp_path / "results", tmp_path / "app"
    tvm_ios("bundle", MODEL, "--policy", "greedy", "--lanes", 2, "--max-fused", 0, "-o", bundle)
    done = subprocess.run(
        [sys.executable, bundle / "run.py", "--policy", "greedy", "-o", results, "--json"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    kept = json.loads((results / "results.json").read_text())
    (latency,) = [r["latency_ms"] for r in kept["policies"] if r["policy"] == kept["kept"]]

    made = tvm_ios("optimize", MODEL, "--json", "--from-logs", results, "-o", app).json
    assert made["left_out"] == []
    (entry,) = made["entries"]
    assert (entry["policy"], entry["lanes"], entry["batch"]) == (kept["kept"], 2, 1)
    assert (entry["latency_ms"], entry["device"]) == (latency, kept["device"])
    assert "results.json" in entry["notes"][0]
    assert "not measured here" in entry["notes"][0]
    schedule = json.loads((results / f"schedule-{kept['kept']}.json").read_text())
    assert schedule_of(app, entry["id"]) == schedule["stages"]
    assert tvm_ios("pick", app, "--lanes", 2, "--json").json["taken"] == [entry["id"]]
    assert tvm_ios("run", app, "--lanes", 2, "--repeat", 1, "--json").json["entry"] == entry["id"]

    # Without the schedule that was kept nothing is made of the others beside it.
    incomplete = tmp_path / "incomplete"
    shutil.copytree(results, incomplete)
    (incomplete / f"schedule-{kept['kept']}.json").unlink()
    again = ("optimize", MODEL, "--from-logs", incomplete, "-o", tmp_path / "none")
    tvm_ios(*again).refuses("results.json", f"schedule-{kept['kept']}.json")


@pytest.mark.slow
def test_logs_of_two_numbers_of_lanes_make_an_entry_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, app = tmp_path / "logs", tmp_path / "app"
    logs.mkdir()
    search = ("schedule", MODEL, "--policy", "greedy", "--cost", "measured")
    recorded: dict[int, Path] = {}
    for lanes in (1, 2):
        cache = tmp_path / f"cache {lanes}"
        monkeypatch.setenv("TVM_IOS_CACHE", str(cache))
        tvm_ios(*search, "--lanes", lanes, "-o", tmp_path / f"{lanes}.json")
        (log,) = cache.glob("logs/*.jsonl")
        assert f"{lanes} lanes" in read_header(log).device
        recorded[lanes] = Path(shutil.copy(log, logs / f"{lanes}.jsonl"))

    optimize = ("optimize", MODEL, "--policy", "greedy", "--json", "--from-logs", logs, "-o")
    made = tvm_ios(*optimize, app).json
    assert made["left_out"] == []
    entries = {entry["lanes"]: entry for entry in made["entries"]}
    assert sorted(entries) == [1, 2]
    inputs = {"input": np.ones((1, 3, 16, 16), "float32"), "detail": np.ones((1, 1, 32, 32), "f4")}
    outputs: list[Any] = []
    for lanes, log in recorded.items():
        entry = entries[lanes]
        assert (entry["latency_ms"], entry["device"]) == (None, None)
        assert log.name in entry["notes"][0]
        # It is what a search by that log alone finds.
        found = tmp_path / f"found-{lanes}.json"
        by_log = ("schedule", MODEL, "--policy", "greedy", "--cost", log, "--lanes", lanes)
        tvm_ios(*by_log, "-o", found)
        assert schedule_of(app, entry["id"]) == json.loads(found.read_text())["stages"]
        program = load(app / "entries" / entry["id"])
        assert isinstance(program, Executable)
        assert len(program.program.lanes) <= lanes
        session = program.session()
        session.run(**inputs)
        outputs.append(session.get_output("output"))
    np.testing.assert_allclose(*outputs, rtol=1e-4)

    one = tvm_ios(*optimize, tmp_path / "one", "--lanes", 1).json
    assert [entry["lanes"] for entry in one["entries"]] == [1]
