"""Schedules of IOS's published implementation, as users give them."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from relay_passes import IOSSchedule, schedule_of
from relay_passes.relax.importer import import_onnx
from tests.cli.command_line import tvm_ios
from tests.schedule.published_files import inception_block_model, published_file
from tvm_ios.models.load import load_graph, load_onnx
from tvm_ios.schedule.stage import Stage, Strategy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model, and a schedule of it that merges and runs groups side by side."""
    folder = tmp_path_factory.mktemp("published")
    onnx.save(inception_block_model(), folder / "block.onnx")
    units = load_graph(str(folder / "block.onnx"))
    stages = [Stage(Strategy.CONCURRENT, ((unit,),)) for unit in range(len(units))]
    stages[6:8] = [Stage(Strategy.MERGE, ((6,), (7,)))]
    stages[1:5] = [Stage(Strategy.CONCURRENT, ((1, 2), (3, 4)))]
    (folder / "published.json").write_text(json.dumps(published_file(units, stages, 12)))
    return folder


def test_their_cost_stands_beside_ours(folder: Path) -> None:
    command = ("schedule", folder / "block.onnx", "--schedule", folder / "published.json")
    shown = tvm_ios(*command, "--cost", "v100", "--json").json
    given = shown["given"]
    assert given["policy"] == "block_dp_parallel_merge"
    assert (given["stages"], given["added"]) == (9, ["dense"])
    assert given["ratio"] == pytest.approx(given["latency_ms"] / shown["latency_ms"])
    assert given["ratio"] > 1
    told = " ".join(tvm_ios(*command).stdout.split())
    assert "9 stages" in told
    assert "of the time of ios-both" in told
    assert "units that it lacks run at its end: dense" in told


def test_it_is_compiled_and_runs(folder: Path, tmp_path: Path) -> None:
    source = ("optimize", folder / "block.onnx", "--schedule", folder / "published.json")
    done = tvm_ios(*source, "--lanes", 2, "--cost", "cpu", "-o", tmp_path / "out", "--json").json
    assert done["kept"] == "given"
    kept = json.loads((tmp_path / "out" / "schedule.json").read_text())
    assert [stage["groups"] for stage in kept["stages"]][1] == [[1, 2], [3, 4]]
    assert kept["stages"][3]["strategy"] == "merge"
    run = tvm_ios("run", tmp_path / "out", "--json").json
    assert run["outputs"]["output"]["shape"] == [1, 4]


def test_the_pass_takes_it(folder: Path) -> None:
    module = import_onnx(load_onnx(str(folder / "block.onnx")))
    apply = IOSSchedule(schedule=folder / "published.json")
    scheduled = apply(module)
    found = schedule_of(scheduled)
    assert found is not None
    assert found.stages[3].strategy is Strategy.MERGE
    assert apply(scheduled).same_as(scheduled)
    text = (folder / "published.json").read_text()
    assert schedule_of(IOSSchedule(schedule=text)(module)) == found


def test_it_has_no_place_among_trades_of_memory(folder: Path) -> None:
    refused = tvm_ios("schedule", "squeezenet", "--pareto", "--schedule", folder / "published.json")
    assert refused.code == 2
    assert "--schedule" in refused.stderr
