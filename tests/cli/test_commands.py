"""Commands that need no kernels: their JSON, tables, files, exit codes and errors."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import tvm_ios, tvm_ios_process
from tests.graph_sketch import GraphSketch
from tvm_ios import zoo
from tvm_ios.costs.costs import Offer
from tvm_ios.models.load import load_graph
from tvm_ios.policies.registry import tried_policies
from tvm_ios.schedule.schedule import Schedule

BARE = {"name": "bare", "blocks": [{"operators": 3, "edges": [[0, 1]]}, {"operators": 1}]}

#: What a described device has costs for.
DESCRIBED = tried_policies({Offer.STAGES, Offer.RTASKS})[0]


def bare(folder: Path) -> Path:
    path = folder / "bare.json"
    blocks = [{"edges": [], **block} for block in BARE["blocks"]]
    path.write_text(json.dumps({**BARE, "blocks": blocks}))
    return path


def test_models() -> None:
    result = tvm_ios("models", "--json").json
    assert list(result) == ["models"]
    assert [row["name"] for row in result["models"]] == list(zoo.names())
    for row in result["models"]:
        assert list(row) == ["name", "input", "operators", "blocks"]
        first = next(iter(zoo.describe(row["name"]).input_shapes.values()))
        assert tuple(row["input"]) == first
    table = tvm_ios("models").stdout
    assert all(name in table for name in zoo.names())


@pytest.mark.parametrize("groups", ["connected", "rooted"])
def test_stats(groups: str) -> None:
    result = tvm_ios("stats", "inception_block", "--groups", groups, "--json").json
    assert list(result) == ["model", "tail", "groups", "blocks", "total"]
    assert result["model"] == "inception_block"
    assert result["groups"] == groups
    keys = ["operators", "width", "states", "transitions", "schedules", "bound"]
    assert all(list(block) == keys for block in result["blocks"])
    for key in ("operators", "transitions"):
        assert result["total"][key] == sum(block[key] for block in result["blocks"])
    assert result["total"]["operators"] == len(load_graph("inception_block"))
    assert max(block["width"] for block in result["blocks"]) == 9


def test_stats_of_a_bare_block_graph(tmp_path: Path) -> None:
    """A chain of two beside a third: 3 x 2 states, and 6 x 3 nested pairs of them, 6 of equals."""
    result = tvm_ios("stats", bare(tmp_path), "--json").json
    assert result["model"] == "bare"
    block = result["blocks"][0]
    assert (block["operators"], block["width"]) == (3, 2)
    assert (block["states"], block["transitions"]) == (6, 12)
    assert result["total"] == {"operators": 4, "transitions": 13}


def test_stats_of_a_graph_file_and_a_table(tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(load_graph("inception_block").to_json()))
    assert (
        tvm_ios("stats", path, "--json").json == tvm_ios("stats", "inception_block", "--json").json
    )
    table = tvm_ios("stats", path)
    assert table.code == 0
    assert "transitions" in table.stdout
    assert "136,080" in table.stdout


@pytest.mark.parametrize("policy", DESCRIBED)
def test_schedule(policy: str, tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    command = ["schedule", "inception_block", "--policy", policy, "--json", "-o", path]
    result = tvm_ios(*command).json
    keys = ["model", "policy", "cost", "latency_ms", "stages", "search", "memory_bytes"]
    assert list(result) == [*keys, "named_kernels", "tail"]
    assert (result["model"], result["policy"], result["cost"]) == (
        "inception_block",
        policy,
        "v100",
    )
    assert list(result["search"]) == ["seconds", "states", "transitions", "stages_measured"]
    assert (result["search"]["states"] > 0) == policy.startswith("ios")
    assert all(list(s) == ["strategy", "groups", "latency_ms"] for s in result["stages"])
    total = math.fsum(stage["latency_ms"] for stage in result["stages"])
    assert result["latency_ms"] == pytest.approx(total)
    graph = load_graph("inception_block")
    units = [unit for stage in result["stages"] for group in stage["groups"] for unit in group]
    assert sorted(units) == sorted(op.name for op in graph.operators)
    saved = Schedule.load(path)
    saved.validate(graph)
    assert saved.policy == policy
    assert len(saved.stages) == len(result["stages"])


@pytest.mark.slow
def test_a_search_is_no_worse_than_its_parts() -> None:
    latency = {
        policy: tvm_ios("schedule", "nasnet_cell", "--policy", policy, "--json").json["latency_ms"]
        for policy in DESCRIBED
    }
    exact = 1 + 1e-9
    assert latency["ios-both"] <= exact * min(latency["ios-merge"], latency["ios-parallel"])
    assert latency["ios-parallel"] <= exact * latency["sequential"]
    # NASNet's convolutions are depthwise: nothing can be merged (IOS, section 5).
    assert latency["ios-merge"] == pytest.approx(latency["sequential"])


def test_pruning_and_blocks_are_options() -> None:
    def run(*options: Any) -> dict[str, Any]:
        return tvm_ios("schedule", "inception_block", "--json", *options).json

    widest = run("-r", 1, "-s", 2)
    greedy = [stage["groups"] for stage in run("--policy", "greedy")["stages"]]
    wide = [stage["groups"] for stage in widest["stages"] if len(stage["groups"]) > 2]
    assert all(groups in greedy for groups in wide)
    assert max(len(g) for s in widest["stages"] for g in s["groups"]) == 1
    assert run("--max-block", 5)["search"]["states"] < run()["search"]["states"]
    assert run("--no-reuse")["latency_ms"] == run()["latency_ms"]


def test_schedule_prints_a_table_and_draws(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    outcome = tvm_ios("schedule", "inception_block", "--plot", tmp_path / "s.svg")
    assert outcome.code == 0
    assert "conv_8 → conv_9" in outcome.stdout
    assert "6 stages" in outcome.stdout
    assert "greedy" not in outcome.stdout
    assert b"<svg" in (tmp_path / "s.svg").read_bytes()


def test_schedule_says_where_greedy_s_stages_are_kept() -> None:
    assert "greedy's" in tvm_ios("schedule", "two_inputs").stdout


def test_names_that_look_like_markup_are_printed_as_they_are(tmp_path: Path) -> None:
    sketch = GraphSketch()
    sketch.op("relu", 0)
    sketch.operators[0] = replace(sketch.operators[0], name="a[bold]b:smile:")
    path = tmp_path / "m[red].json"
    graph = replace(sketch.graph(), name="m[red]")
    path.write_text(json.dumps(graph.to_json()))
    table = tvm_ios("schedule", path).stdout
    assert "a[bold]b:smile:" in table
    assert "m[red]: ios-both" in table
    assert "m[red]" in tvm_ios("stats", path).stdout


@pytest.mark.parametrize("command", ["run", "explain"])
@pytest.mark.parametrize("model", ["squeezenet", "m.onnx"])
def test_a_model_is_no_executable_yet(command: str, model: str) -> None:
    tvm_ios(command, model).refuses(f"`tvm-ios optimize {model}`")


def test_a_graph_file_is_scheduled(tmp_path: Path) -> None:
    sketch = GraphSketch()
    graph = sketch.graph(sketch.op("add", sketch.conv(0), sketch.conv(0, 1)))
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(graph.to_json()))
    assert len(tvm_ios("schedule", path, "--policy", "sequential", "--json").json["stages"]) == 5


def test_stdout_has_json_only_also_in_a_process_of_its_own() -> None:
    outcome = tvm_ios_process("schedule", "inception_block", "--json")
    assert outcome.json["model"] == "inception_block"
    assert "searching" in outcome.stderr


@pytest.mark.parametrize("command", ["stats", "schedule", "optimize"])
@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("no_such_network", "tvm-ios models"),
        ("nothing.onnx", "No such file or directory"),
        ("noise.onnx", "ONNX"),
        ("empty.onnx", "ONNX"),
        ("folder.onnx", "ONNX"),
    ],
)
def test_models_that_cannot_be_read(
    command: str, model: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("noise.onnx").write_bytes(os.urandom(999))
    Path("empty.onnx").touch()
    Path("folder.onnx").mkdir()
    tvm_ios(command, model).refuses(model, named)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("{", "graph.json"),
        ("[]", "graph.json"),
        ("{}", "graph of version 1"),
        ('{"format": "tvm-ios graph", "version": 1}', "'name'"),
    ],
)
def test_graph_files_that_cannot_be_read(content: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "graph.json"
    path.write_text(content)
    for command in ("stats", "schedule"):
        tvm_ios(command, path).refuses(named)


WRONG = {
    "policy": (["--policy", "magic"], "'magic'"),
    "device": (["--cost", "abacus"], "'abacus'"),
    "folder": (["-o", "/proc/nothing/s.json"], "/proc/nothing"),
    "picture": (["--plot", "s.jpeg2000"], ".svg or .png"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_options_of_schedule(case: str) -> None:
    options, named = WRONG[case]
    tvm_ios("schedule", "inception_block", *options).refuses(named)


def test_stages_of_a_graph_file_cannot_be_measured(tmp_path: Path) -> None:
    tvm_ios("schedule", bare(tmp_path), "--cost", "measured").refuses("model")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["alchemy"],
        ["stats"],
        ["stats", "inception_block", "--groups", "loose"],
        ["stats", "inception_block", "--max-block", "0"],
        ["schedule", "inception_block", "-r", "0"],
        ["schedule", "inception_block", "-s", "none"],
        ["optimize", "inception_block", "--lanes", "0"],
        ["optimize", "inception_block", "--measure", "never"],
        ["run", "out", "--repeat", "0"],
    ],
    ids=" ".join,
)
def test_bad_usage(arguments: list[str]) -> None:
    outcome = tvm_ios(*arguments)
    assert outcome.code == 2
    assert "Traceback" not in outcome.stderr


def test_debug_shows_the_traceback() -> None:
    tvm_ios("stats", "no_such_network").refuses("'no_such_network'")
    loud = tvm_ios_process("stats", "no_such_network", "--debug")
    assert loud.code == 1
    assert "Traceback" in loud.stderr


def test_sub_graphs_of_a_batch() -> None:
    command = ["stats", "mobilenet_v2", "--policy", "graphturbo", "--batch", 8, "--lanes", 2]
    result = tvm_ios(*command, "--capacity", "8M", "--json").json
    assert (result["model"], result["batch"], result["capacity"]) == ("mobilenet_v2", 8, 8 << 20)
    units = [unit for subgraph in result["subgraphs"] for unit in subgraph["units"]]
    assert sorted(units) == sorted(op.name for op in load_graph("mobilenet_v2").operators)
    assert max(s["factor"] for s in result["subgraphs"]) > 1
    assert all((s["axis"] is None) == (s["factor"] == 1) for s in result["subgraphs"])
    assert sum(s["factor"] for s in result["subgraphs"]) == result["instances"]
    table = tvm_ios(*command, "--capacity", "8M")
    assert "mobilenet_v2, batch 8, 2 lanes" in table.stdout


def test_another_batch() -> None:
    """Counts do not change, latencies do."""
    one, many = (
        tvm_ios("schedule", "inception_block", "--policy", "sequential", "--batch", n, "--json")
        for n in (1, 4)
    )
    assert many.json["latency_ms"] > one.json["latency_ms"]
    assert tvm_ios("stats", "inception_block", "--batch", 4, "--json").json == (
        tvm_ios("stats", "inception_block", "--json").json
    )


@pytest.mark.parametrize("policy", ["graphturbo", "holistic"])
def test_policies_of_whole_programs_are_measured(policy: str) -> None:
    outcome = tvm_ios("schedule", "inception_block", "--policy", policy)
    assert outcome.code == 1
    assert all(
        part in outcome.stderr for part in (repr(policy), "whole programs", "--cost measured")
    )


def test_names_that_were_probably_meant() -> None:
    wrong = tvm_ios("schedule", "nasnet_cell", "--policy", "ios-bth")
    wrong.refuses("did you mean 'ios-both'?")
    tvm_ios("schedule", "nasnet_cel").refuses("did you mean 'nasnet_cell'?")
    tvm_ios("schedule", "nasnet_cell", "--cost", "v10").refuses("did you mean 'v100'?")
    meant = tvm_ios("optimize", "nasnet_cell", "--policy", "sequental,greedy")
    assert meant.code == 2
    # It stands in a box, whose lines break anywhere.
    assert "did you mean 'sequential'?" in " ".join(meant.stderr.replace("│", "").split())
