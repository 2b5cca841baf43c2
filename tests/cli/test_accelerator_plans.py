"""``tvm-ios schedule --policy graphturbo`` for described accelerators."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relay_passes.load import load_model
from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.build import build
from tests.cli.command_line import tvm_ios
from tests.onnx_sketch import Sketch
from tests.refusals import require_names
from tvm_ios.api import load_operators
from tvm_ios.api.accelerator import schedule_for_streams
from tvm_ios.cli.tables.accelerator import print_plan
from tvm_ios.devices.memory_hierarchy import hierarchy_names, load_hierarchy
from tvm_ios.files.byte_sizes import kib
from tvm_ios.graph.units import form_units
from tvm_ios.graphturbo.cluster.plan import plan_for
from tvm_ios.graphturbo.planned import planned_instances
from tvm_ios.models.source import ModelSource
from tvm_ios.program.program import Launch
from tvm_ios.schedule.schedule import Schedule

PLAN = ("schedule", "--policy", "graphturbo", "--cost")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three convolutions, the second of which halves the images."""
    sketch = Sketch(1, 8, 64, 64)
    x = "x"
    for before, after, stride in ((8, 8, 1), (8, 16, 2), (16, 16, 1)):
        x = sketch.op("Relu", sketch.conv(x, before, after, strides=[stride] * 2))
    path = tmp_path_factory.mktemp("plans") / "model.onnx"
    path.write_bytes(sketch.model(x).SerializeToString())
    return path


def hierarchy(folder: Path, **figures: float) -> Path:
    data = json.loads(Path("tvm_ios/devices/hierarchy_data/stcp920.json").read_text())
    for name, value in figures.items():
        data["figures"][name]["value"] = value
    path = folder / "mine.json"
    path.write_text(json.dumps({**data, "name": "mine"}))
    return path


def test_a_plan_of_a_split_network(model: Path, tmp_path: Path) -> None:
    device = hierarchy(tmp_path, local_buffer=4096, global_buffer=512 << 10, clusters=2)
    file = tmp_path / "plan.json"
    outcome = tvm_ios(
        model and PLAN[0], model, *PLAN[1:], device, "--batch", 16, "-o", file, "--json"
    )
    plan = json.loads(file.read_text())
    assert outcome.json == {**plan, "cost": "mine", "tail": None}
    assert (plan["batch"], plan["clusters"], plan["batch_of_a_cluster"]) == (16, 2, 8)
    factors = [subgraph["instances"] for subgraph in plan["subgraphs"]]
    assert max(factors) > 1
    keys = [[i["subgraph"], i["part"]] for i in plan["instances"]]
    assert keys == plan["order"]["instances"]
    assert sorted(keys) == [[n, part] for n, factor in enumerate(factors) for part in range(factor)]
    assert all(0 <= i["begin_ms"] <= i["end_ms"] <= plan["latency_ms"] for i in plan["instances"])
    assert all(1 <= math.prod(i["binding"]) <= 8 for i in plan["instances"])
    runs = [run for subgraph in plan["subgraphs"] for run in subgraph["runs"]]
    operators = [name for run in runs for layer in run["layers"] for name in layer["operators"]]
    assert len(operators) == len(set(operators)) == sum(s["operators"] for s in plan["subgraphs"])
    assert any(run["tiles"] > 1 and run["tile"] for run in runs)
    for move in plan["moves"]:
        assert keys.index(move["before"]) > max(keys.index(source) for source in move["from"])
    assert set(plan["tensors_in"]) == {"local buffer", "global buffer", "memory"}


def test_the_papers_placement(model: Path) -> None:
    by_time, published = (
        tvm_ios(PLAN[0], model, *PLAN[1:], "stcp920", "--placement", name, "--json").json
        for name in ("fastest", "published")
    )
    assert [plan["placement"] for plan in (by_time, published)] == ["fastest", "published"]
    assert by_time["latency_ms"] <= published["latency_ms"]


def test_the_table(model: Path) -> None:
    shown = tvm_ios(PLAN[0], model, *PLAN[1:], "stcp920", "--precision", "float16")
    assert shown.code == 0
    assert "stcp920" in shown.stdout
    assert "0.0" in shown.stdout


def test_an_order_that_needs_more_than_its_buffer(model: Path, capsys: Any) -> None:
    plan = plan_for(load_operators(str(model)), load_hierarchy("stcp920"), 1)
    assert plan.warning is None
    tight = replace(plan, chosen=replace(plan.chosen, capacity=plan.chosen.order.peak - 1024))
    assert tight.warning is not None
    require_names(tight.warning, plan.chosen.order.name, kib(plan.chosen.order.peak), "--batch")
    assert tight.to_json()["warning"] == tight.warning
    print_plan(tight, None, as_json=False)
    assert tight.warning in capsys.readouterr().err


@pytest.mark.parametrize("name", hierarchy_names())
def test_every_accelerator(model: Path, name: str) -> None:
    plan = tvm_ios(PLAN[0], model, *PLAN[1:], name, "--batch", 2, "--json").json
    assert plan["device"] == name
    assert plan["latency_ms"] > 0


def test_instances_on_the_streams_of_a_gpu(model: Path, tmp_path: Path) -> None:
    device = hierarchy(tmp_path, global_buffer=1 << 20, clusters=1)
    file = tmp_path / "schedule.json"
    command = (PLAN[0], model, *PLAN[1:], device, "--target", "cuda", "--lanes", 2, "--batch", 8)
    shown = tvm_ios(*command, "--json", "-o", file).json
    plan = shown["instances"]
    operators = load_operators(ModelSource(str(model), batch=8))
    units = form_units(operators)
    schedule = Schedule.load(file)
    schedule.validate(units)
    assert (schedule.device, schedule.instances.lanes if schedule.instances else 0) == ("mine", 2)
    assert {lane for _, _, lane in plan["order"]} == {0, 1}
    # Two instances at once fit the L2; parts of a batch are equal.
    split = planned_instances(operators, units, schedule).instances
    assert all(i.work.peak <= (1 << 20) / 2 for i in split.instances)
    assert all(8 % subgraph["factor"] == 0 for subgraph in plan["subgraphs"])


@pytest.mark.slow
def test_streams_run_instances_in_a_program_for_a_gpu(model: Path, tmp_path: Path) -> None:
    device = hierarchy(tmp_path, global_buffer=1 << 20, clusters=1)
    schedule, _, _ = schedule_for_streams(ModelSource(str(model), batch=8), str(device), 2)
    loaded = load_model(ModelSource(str(model), batch=8))
    prepared = prepare(loaded.module, loaded.name)
    target = {"kind": "cuda", "arch": "sm_80"}
    program = build(apply_schedule(prepared, schedule), lanes=2, target=target).program
    launches = [sum(isinstance(step, Launch) for step in lane) for lane in program.lanes]
    assert len(launches) == 2
    assert min(launches) >= 4  # each stream has half of the parts


def test_refusals(model: Path, tmp_path: Path) -> None:
    begin = (PLAN[0], model, *PLAN[1:])
    tvm_ios(*begin, hierarchy(tmp_path, cores=0)).refuses("mine.json", "'cores'")
    (tmp_path / "other.json").write_text('{"format": "other"}')
    tvm_ios(*begin, tmp_path / "other.json").refuses("other.json", "memory hierarchy")
    (tmp_path / "none.json").write_text("{")
    tvm_ios(*begin, tmp_path / "none.json").refuses("none.json")
    tvm_ios(*begin, tmp_path / "missing.json").refuses("missing.json")
    tvm_ios("schedule", model, "--cost", "stcp920").refuses("stcp920", "--policy graphturbo")
    tvm_ios(*begin, "v100").refuses("stcp920")
    for options in (
        ("--plot", tmp_path / "plan.svg"),
        ("--precision", "tf32"),
        ("--placement", "published", "--target", "cuda"),
    ):
        assert tvm_ios(*begin, "stcp920", *options).code == 2
    assert tvm_ios("schedule", model, "--placement", "fastest").code == 2
    assert tvm_ios("schedule", model, "--precision", "float16").code == 2
