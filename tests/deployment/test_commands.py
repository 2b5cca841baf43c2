"""Deployments as a user makes, runs, looks at and prunes them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from runtime_ext.deployment.deployment import Deployment
from tests.cli.command_line import tvm_ios
from tvm_ios.api import load
from tvm_ios.costs.log_lines import read_header

MODEL = ("optimize", "two_inputs", "--policy", "sequential", "--json")
#: Nothing is measured.
DESCRIBED = (*MODEL, "--cost", "cpu")


def shapes(rows: int) -> tuple[str, ...]:
    return ("--shape", f"input:{rows},3,16,16", "--shape", f"detail:{rows},1,32,32")


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two batches on one and two lanes."""
    path = tmp_path_factory.mktemp("commands") / "app"
    options = ("--batch", "1,4", "--lanes", "1,2", "--arch", "x86-64-v2")
    made = tvm_ios(*DESCRIBED, *options, "-o", path).json
    assert len(made["entries"]) == 4
    assert made["others"] == made["left_out"] == []
    assert {entry["latency_ms"] for entry in made["entries"]} == {None}
    assert {entry["padding"] for entry in made["entries"] if entry["batch"] == 4} == {True}
    assert all("not measured: scheduled by cpu" in entry["notes"] for entry in made["entries"])
    return path


def test_equal_kernels_and_weights_are_there_once(app: Path) -> None:
    """No kernel depends on how many lanes share it."""
    assert len(list((app / "entries").iterdir())) == 4
    assert len(list((app / "kernels").iterdir())) == 2


def test_what_is_run_is_what_pick_says(app: Path, tmp_path: Path) -> None:
    for rows, lanes in ((1, 2), (3, 1), (4, 2)):
        options = (*shapes(rows), "--lanes", lanes, "--json")
        picked = tvm_ios("pick", app, *options).json
        ran = tvm_ios("run", app, *options, "--repeat", 1).json
        assert picked["taken"] == [ran["entry"]]
        assert ran["outputs"]["output"]["shape"] == [rows, 10]
        (taken,) = [entry for entry in picked["entries"] if entry["taken"]]
        assert taken["lanes"] == lanes
        assert ("padded to 4" in taken["reason"]) == (rows == 3)
        assert all(entry["reason"] for entry in picked["entries"])
    elsewhere = ("pick", app, "--arch", "x86-64-v3", "--lanes", 1)
    reasons = {entry["reason"] for entry in tvm_ios(*elsewhere, "--json").json["entries"]}
    assert reasons == {"taken", "it has 2 lanes, and 1 may be used"}
    assert "x86-64-v2-1l-b1" in tvm_ios(*elsewhere).stdout


def test_what_is_shown_is_what_runs_without_inputs(app: Path, tmp_path: Path) -> None:
    taken = tvm_ios("run", app, "--repeat", 1, "--json").json["entry"]
    page = tmp_path / "page.html"
    commands = (("report", app, "-o", page), ("trace", app, "-o", tmp_path / "t.json"))
    for command in (*commands, ("explain", app)):
        outcome = tvm_ios(*command, "--repeat", 1)
        assert outcome.code == 0, outcome.stderr
        assert f"entry {taken} is taken" in outcome.stderr
    assert f"tvm-ios: {taken}" in page.read_text()


def test_rows_of_a_padded_batch_are_those_of_a_small_one(app: Path) -> None:
    deployment = load(app)
    assert isinstance(deployment, Deployment)
    session = deployment.session()
    inputs = session.random_inputs(0, {"input": (3, 3, 16, 16), "detail": (3, 1, 32, 32)})
    session.run(**inputs)
    together = session.get_output("output")
    for row in range(3):
        session.run(**{name: value[row : row + 1] for name, value in inputs.items()})
        np.testing.assert_allclose(session.get_output("output")[0], together[row], rtol=1e-4)


def test_refusals(app: Path, tmp_path: Path) -> None:
    tvm_ios("run", app, *shapes(5)).refuses("input:5x3x16x16", "input:4x3x16x16", "fewer rows")
    tvm_ios("pick", app, *shapes(5)).refuses("input:5x3x16x16")
    tvm_ios("pick", app, "--arch", "pdp-11").refuses("pdp-11", "x86-64-v3")
    tvm_ios("pick", tmp_path).refuses(tmp_path, "deployment.json")
    other = ("optimize", "several_outputs", "--cost", "cpu", "--policy", "sequential")
    tvm_ios(*other, "-o", app).refuses(app, "two_inputs", "several_outputs")
    tvm_ios(*DESCRIBED, "--batch", "1,2", "-o", tmp_path / "a.tar").refuses("a.tar")
    for option, value in (("--batch", "1,x"), ("--lanes", "0"), ("--fallback", "onnxruntime")):
        outcome = tvm_ios(*DESCRIBED, *("--batch", "1,2"), option, value, "-o", tmp_path / "new")
        assert outcome.code == 2
        assert option in outcome.stderr
    assert not (tmp_path / "new").exists()


def test_entries_are_added_and_pruned(app: Path) -> None:
    made = tvm_ios(*DESCRIBED, "--batch", 2, "--lanes", 1, "-o", app).json
    (added,), others = made["entries"], made["others"]
    assert len(others) == 4
    assert tvm_ios("pick", app, *shapes(2), "--lanes", 1, "--json").json["taken"] == [added["id"]]
    pruned = tvm_ios("prune", app, added["id"], "--json").json
    assert pruned["removed"] == [added["id"]]
    assert pruned["freed_bytes"] > 0
    assert len(tvm_ios("pick", app, "--json").json["entries"]) == 4
    assert tvm_ios("run", app, *shapes(2), "--lanes", 1, "--repeat", 1, "--json").json["entry"]


def test_what_cannot_be_made_is_left_out_and_named(tmp_path: Path) -> None:
    outcome = tvm_ios(*DESCRIBED, "--batch", "1,2", "--memory-budget", "20K", "-o", tmp_path / "a")
    assert outcome.code == 1
    made = json.loads(outcome.stdout) if outcome.stdout else None
    if made is None:
        assert "batch 1" in outcome.stderr
    else:
        assert [entry["batch"] for entry in made["entries"]] == [1]
        assert "batch 2" in made["left_out"][0]


@pytest.mark.slow
def test_measured_here(tmp_path: Path) -> None:
    options = ("--batch", "1,2", "--lanes", 1, "--max-measurements", 3)
    made = tvm_ios(*MODEL, *options, "-o", tmp_path / "app").json
    assert all(
        entry["latency_ms"] > 0 and "1 lanes" in entry["device"] for entry in made["entries"]
    )


@pytest.mark.slow
def test_logs_and_schedules_of_other_machines_make_entries(cache: Path, tmp_path: Path) -> None:
    """A log and a schedule, as two machines leave them, and files that are neither."""
    logs, app = tmp_path / "logs", tmp_path / "app"
    logs.mkdir()
    search = ("schedule", "two_inputs", "--cost", "measured", "--policy", "sequential")
    schedule = logs / "one.json"
    tvm_ios(*search, "--lanes", 1, "--max-measurements", 3, "-o", schedule)
    for log in cache.glob("logs/*.jsonl"):
        if "1 lanes" in read_header(log).device:
            # As if two lanes had recorded it.
            text = log.read_text().replace("1 lanes", "2 lanes").replace('cores\\":1', 'cores\\":2')
            (logs / "two.jsonl").write_text(text)
    (logs / "broken.json").write_text("{")
    outcome = tvm_ios("optimize", "two_inputs", "--json", "--from-logs", logs, "-o", app)
    made = json.loads(outcome.stdout)
    assert {entry["lanes"] for entry in made["entries"]} >= {1}
    assert any("broken.json" in sentence for sentence in made["left_out"])
    assert outcome.code == 1
    assert all("not measured here" in entry["notes"][0] for entry in made["entries"])
    tvm_ios("run", app, "--repeat", 1, "--lanes", 1)


def test_a_folder_without_logs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "none"):
        tvm_ios(*MODEL, "--from-logs", folder, "-o", tmp_path / "app").refuses(folder)


def test_shapes_that_a_shell_expanded_are_all_meant(app: Path) -> None:
    """`--shape x:1,{2,3}` is one option and a word more where the shell has read the braces."""
    outcome = tvm_ios("optimize", "--shape", "input:1,2", "input:1,3", "two_inputs", "--batch", "0")
    assert outcome.code == 2
    assert "--batch" in outcome.stderr
