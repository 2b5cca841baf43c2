"""``tvm-ios check``: of plans, CUDA graphs and executables, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runtime_ext.execution.executable import Executable
from tests.cli.command_line import tvm_ios
from tests.execution.small_executable import change, small_executable
from tests.program.races.test_cuda_graph import NODES, PLAIN

EXAMPLE = Path(__file__).parents[2] / "examples" / "plan.json"


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Executable:
    return small_executable(tmp_path_factory.mktemp("kernels"))


def test_the_example_has_a_race() -> None:
    shown = tvm_ios("check", EXAMPLE)
    assert shown.code == 1
    assert "1 race among 3 launches" in shown.stdout
    found = tvm_ios("check", EXAMPLE, "--json")
    assert found.code == 1
    assert json.loads(found.stdout) == {
        "launches": 3,
        "races": [
            {
                "first": "conv",
                "second": "pool",
                "buffers": ["left", "right"],
                "writes": [True, True],
            }
        ],
    }


def test_cuda_graphs_need_their_buffers(tmp_path: Path) -> None:
    graph, buffers = tmp_path / "graph.dot", tmp_path / "buffers.json"
    graph.write_text(PLAIN)
    sizes = dict.fromkeys(("x", "y", "z", "sum"), 64)
    document = {"format": "tvm-ios plan", "version": 1, "buffers": sizes, "nodes": NODES}
    buffers.write_text(json.dumps(document))
    found = tvm_ios("check", graph, "--buffers", buffers, "--json").json
    assert found == {"launches": 4, "races": []}
    assert tvm_ios("check", graph).code == 2
    assert tvm_ios("check", EXAMPLE, "--buffers", buffers).code == 2


@pytest.mark.parametrize("name", ["out", "out.tar"])
def test_an_executable_has_no_race(name: str, executable: Executable, tmp_path: Path) -> None:
    path = tmp_path / name
    executable.save(path)
    found = tvm_ios("check", path, "--json").json
    lanes = executable.program.lanes
    assert found["races"] == []
    assert found["launches"] == sum(
        type(item).__name__ == "Launch" for lane in lanes for item in lane
    )


def test_an_executable_whose_lanes_overtake_each_other(
    executable: Executable, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    executable.save(path)

    def without_waits(program: dict[str, Any]) -> None:
        program["lanes"] = [[i for i in lane if i[0] != "wait"] for lane in program["lanes"]]

    change(path, "program.json", without_waits)
    found = tvm_ios("check", path, "--json")
    assert found.code == 1
    races = json.loads(found.stdout)["races"]
    # Either half of the buffer is read by both parts of the last kernel, of which one waited.
    assert [(race["first"], race["second"], race["buffers"]) for race in races] == [
        (
            "launch 1 of lane 0 (unit 'first')",
            "launch 2 of lane 1 (unit 'third')",
            ["top", "both"],
        ),
        (
            "launch 2 of lane 0 (unit 'third')",
            "launch 1 of lane 1 (unit 'second')",
            ["both", "bottom"],
        ),
    ]


def test_an_executable_whose_units_are_in_the_wrong_order(
    executable: Executable, tmp_path: Path
) -> None:
    path = tmp_path / "out"
    executable.save(path)

    def turned(program: dict[str, Any]) -> None:
        launches = [i for lane in program["lanes"] for i in lane if i[0] == "launch"]
        program["lanes"] = [launches[::-1]]

    change(path, "program.json", turned)
    tvm_ios("check", path).refuses("'third'", "'both'", "nothing has written before")


def test_what_is_no_plan_is_refused(tmp_path: Path) -> None:
    tvm_ios("check", tmp_path / "missing.json").refuses("missing.json")
    tvm_ios("check", tmp_path / "missing").refuses("missing")
    tvm_ios("check", "squeezenet").refuses("squeezenet", "optimize")
    tvm_ios("check", "model.onnx").refuses("model.onnx", "optimize")
