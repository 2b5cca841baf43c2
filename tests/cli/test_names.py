"""Units are called after the model's own nodes, from the file to the executable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relay_passes.load import load_model
from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.build import build
from tests.cli.command_line import tvm_ios
from tests.onnx_sketch import Sketch
from tvm_ios.schedule.schedule import Schedule


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two convolutions with names, and between them a node without one that is a unit."""
    sketch = Sketch(1, 3, 8, 8)
    stem = sketch.conv("x", 3, 8)
    pooled = sketch.op("MaxPool", sketch.op("Relu", stem), kernel_shape=[2, 2])
    file = sketch.model(sketch.conv(sketch.op("Erf", pooled), 8, 4))
    first, last = (node for node in file.graph.node if node.op_type == "Conv")
    first.name, last.name = "/stem/conv_5", "/head:conv"
    path = tmp_path_factory.mktemp("names") / "named.onnx"
    path.write_bytes(file.SerializeToString())
    return path


def test_names_are_those_of_the_nodes_everywhere(model: Path, tmp_path: Path) -> None:
    names = ["/stem/conv_5", "MaxPool_0", "/head:conv"]
    for cost in ("v100", "measured"):
        file = tmp_path / f"{cost}.json"
        assert tvm_ios("schedule", model, "--cost", cost, "--json", "-o", file).json
        assert json.loads(file.read_text())["units"] == names
    prepared = prepare(load_model(str(model)).module)
    schedule = Schedule.load(tmp_path / "v100.json")
    build(apply_schedule(prepared, schedule), lanes=1).save(tmp_path / "executable")
    saved = json.loads((tmp_path / "executable" / "schedule.json").read_text())
    assert saved["units"] == names
    program = json.loads((tmp_path / "executable" / "program.json").read_text())
    assert sorted(program["units"]) == sorted(names)
    explained = tvm_ios("explain", tmp_path / "executable", "--repeat", 2, "--json").json
    assert {name.partition(" ")[0] for name in explained["total"]["units"]} == set(names)
