"""What stands between the phases, as it is written for people to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import relax

from relay_passes import IOSSchedule, SearchOptions
from relay_passes.pipeline import apply_schedule, prepare
from tests.cli.command_line import tvm_ios
from tests.file_check import check_text
from tests.refusals import refused
from tests.relax.relax_sketch import RelaxSketch, module_of
from tvm_ios.errors import UserError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.program.program_json import program_from_json
from tvm_ios.schedule.schedule import Schedule, ScheduleError

PHASES = [
    "01_imported.py",
    "02_canonical.py",
    "03_operators.json",
    "04_units.json",
    "05_schedule.json",
    "06_instances.py",
    "07_scheduled.py",
]


def normalised(s: RelaxSketch, x: Any) -> Any:
    parts = [s.emit(relax.op.nn.relu(s.norm(s.conv(x, 4, (n, n))))) for n in (1, 3)]
    return s.emit(relax.op.concat(parts, axis=1))


@pytest.fixture(scope="module")
def module() -> tvm.IRModule:
    return module_of([(1, 6, 8, 8)], normalised)


def names_in(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_optimize_writes_every_phase_and_the_program(tmp_path: Path) -> None:
    dump, out = tmp_path / "dump", tmp_path / "out"
    options = ["--cost", "cpu", "--policy", "ios-both", "--lanes", 1, "--verify", "off"]
    tvm_ios("optimize", "inception_block", *options, "--dump-ir", dump, "-o", out, "--json")
    assert names_in(dump) == [*PHASES, "08_program.json"]
    operators, units = (
        OpGraph.from_json(json.loads((dump / name).read_text()))
        for name in ("03_operators.json", "04_units.json")
    )
    assert len(units) < len(operators)
    schedule = Schedule.load(dump / "05_schedule.json")
    schedule.validate(units)
    assert schedule.stages == Schedule.load(out / "schedule.json").stages
    written = json.loads((dump / "08_program.json").read_text())
    assert written == json.loads((out / "program.json").read_text())
    program_from_json(written)
    check_text(
        (dump / "07_scheduled.py").read_text(),
        """
        CHECK: "ios.schedule": "ios-both for cpu:
        CHECK: def unit_0_conv2d_bias_add_relu(
        CHECK-NEXT: R.func_attr({"ios.group": 0, "ios.stage": 0, "ios.unit": "conv",
        CHECK: def main(
        CHECK: cls.unit_0_conv2d_bias_add_relu(
        """,
        tmp_path,
    )


@pytest.mark.parametrize("cost", ["v100", "cpu"])
def test_schedule_writes_the_module_of_a_schedule_that_needs_no_tvm(
    cost: str, tmp_path: Path
) -> None:
    command = ["schedule", "inception_block", "--cost", cost, "--json"]
    dumping = tvm_ios(*command, "--dump-ir", tmp_path / "dump").json
    without = tvm_ios(*command).json
    assert names_in(tmp_path / "dump") == PHASES
    assert [s["groups"] for s in dumping["stages"]] == [s["groups"] for s in without["stages"]]
    graph = tmp_path / "dump" / "03_operators.json"
    outcome = tvm_ios("schedule", graph, "--cost", cost, "--dump-ir", tmp_path / "other")
    assert outcome.code == 2
    assert "without a module" in outcome.stderr


def test_a_pass_in_a_sequential_writes_its_module(module: tvm.IRModule, tmp_path: Path) -> None:
    options = SearchOptions(dump_ir=tmp_path / "dump")
    passes = [relax.transform.Normalize(), IOSSchedule("greedy", "v100", options=options)]
    scheduled = tvm.transform.Sequential(passes)(module)
    assert names_in(tmp_path / "dump") == PHASES
    assert (tmp_path / "dump" / "07_scheduled.py").read_text() == scheduled.script()


def test_phases_that_are_run_alone_write_their_results(
    module: tvm.IRModule, tmp_path: Path
) -> None:
    dump = tmp_path / "dump"
    prepared = prepare(module, dump_ir=dump)
    assert names_in(dump) == PHASES[:4]
    check_text((dump / "01_imported.py").read_text(), "CHECK: R.nn.batch_norm(", tmp_path)
    canonical = """
    CHECK: R.nn.conv2d(
    CHECK-NOT: R.nn.batch_norm(
    """
    check_text((dump / "02_canonical.py").read_text(), canonical, tmp_path)
    apply_schedule(prepared, sequential_schedule(prepared.units), dump)
    assert names_in(dump) == PHASES


def test_a_schedule_of_another_module_is_refused_by_name(
    module: tvm.IRModule, tmp_path: Path
) -> None:
    other = prepare(module_of([(1, 6, 8, 8)], lambda s, x: s.emit(relax.op.exp(x))))
    with refused(ScheduleError):
        apply_schedule(prepare(module), sequential_schedule(other.units), tmp_path)


def test_a_folder_that_cannot_be_written_is_refused_first(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for folder in (file, file / "below"):
        with refused(UserError, folder):
            IOSSchedule(options=SearchOptions(dump_ir=folder))
        for command in ("optimize", "schedule"):
            # A model that is not there would be refused next.
            tvm_ios(command, "none.onnx", "--cost", "cpu", "--dump-ir", folder).refuses(folder)


@pytest.mark.parametrize(
    "options",
    [
        ["optimize", "two_inputs", "--objective", "throughput"],
        ["optimize", "two_inputs", "--lanes", "1,2"],
        ["schedule", "two_inputs", "--pareto"],
        ["schedule", "squeezenet", "--policy", "graphturbo", "--cost", "stcp920"],
    ],
    ids=" ".join,
)
def test_commands_that_have_no_single_module_refuse_it(options: list[str], tmp_path: Path) -> None:
    outcome = tvm_ios(*options, "--dump-ir", tmp_path / "dump")
    assert outcome.code == 2
    assert "--dump-ir" in outcome.stderr
