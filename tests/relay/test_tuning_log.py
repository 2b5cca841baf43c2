"""AutoTVM logs: which are refused, what they cover, and that kernels are built with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import autotvm, relay

from relay_passes import IOSSchedule, SearchOptions
from runtime_ext.relay.autotvm_task import default_index, keep_layout
from runtime_ext.relay.build import build
from runtime_ext.relay.library import host_target
from runtime_ext.relay.tuning_log import TuningLogError, read_autotvm_log
from tests.onnx_sketch import relative_error
from tests.refusals import refused
from tests.relay.relay_sketch import RelaySketch, inputs_of, module_of, run

TARGET = host_target(2)


def _two(s: RelaySketch, x: Any) -> Any:
    return relay.nn.relu(s.conv(relay.nn.relu(s.conv(x, 16, 16)), 16, 32, (1, 1)))


def record_of(module: tvm.IRModule, target: Any = TARGET) -> str:
    """A record of the first task of a module: TVM's own blocks of channels, and a made-up time."""
    task = autotvm.task.extract_from_program(module["main"], target=target, params={})[0]
    default = default_index(task)
    assert default is not None
    keep_layout(task, default)
    space = task.config_space
    valid = filter(space.is_index_valid, range(space.range_length))
    config = space.get(next(index for index in valid if index != default))
    given = autotvm.MeasureInput(tvm.target.Target(target), task, config)
    return autotvm.record.encode(given, autotvm.MeasureResult((1e-4,), 0, 0.1, 0.0))


def test_kernels_are_built_with_the_log(tmp_path: Path) -> None:
    module = module_of([(1, 16, 14, 14)], _two)
    (tmp_path / "log").write_text(record_of(module) + "\n")
    log = read_autotvm_log(tmp_path / "log", TARGET)
    assert log.coverage(module) == (1, 2)
    made = IOSSchedule("sequential")(module)
    assert log.coverage(made) == (1, 2)
    tuned, usual = build(made, lanes=2, log=tmp_path / "log"), build(made, lanes=2)
    sources = [m.kernels.factory.get_lib().get_source("asm") for m in (tuned, usual)]
    assert sources[0] != sources[1]
    session = tuned.session()
    session.set_input(**inputs_of(module))
    session.run()
    assert relative_error([session.get_output(0)], run(module)) <= 1e-5


def test_layouts_and_kernels_follow_the_log(tmp_path: Path) -> None:
    module = module_of([(1, 16, 14, 14)], _two)
    (tmp_path / "log").write_text(record_of(module) + "\n")
    record = json.loads(record_of(module))
    tiles = {knob[0]: knob[2] for knob in record["config"]["entity"]}
    options = SearchOptions(lanes=2, target=TARGET, database=tmp_path / "log")
    made = IOSSchedule("sequential", options=options)(module)
    assert f"NCHW{tiles['tile_oc'][-1]}c" in made["main"].astext(show_meta_data=False)
    workload = autotvm.task.extract_from_program(made["main"], target=TARGET, params={})[0].workload
    log = read_autotvm_log(tmp_path / "log", TARGET)
    with log.applied() as context, TARGET:
        chosen = context.query(TARGET, workload).to_json_dict()
    assert json.loads(json.dumps(chosen["entity"])) == record["config"]["entity"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"version": 0.1}, ("line 1", 0.1, 0.2)),
        ({"input": []}, ("target",)),
        ({"input": ["cuda -arch=sm_80", "conv2d_NCHWc.x86", [], {}]}, ("target", "'cuda")),
        ({"input": ["nonsense", "x", [], {}]}, ("AutoTVM",)),
    ],
)
def test_records_that_are_refused(change: Any, named: tuple[object, ...], tmp_path: Path) -> None:
    record = json.loads(record_of(module_of([(1, 16, 14, 14)], _two)))
    (tmp_path / "log").write_text(json.dumps(record | change))
    with refused(TuningLogError, *named):
        read_autotvm_log(tmp_path / "log", TARGET)


def test_a_log_of_another_cpu_is_refused(tmp_path: Path) -> None:
    module = module_of([(1, 16, 14, 14)], _two)
    (tmp_path / "log").write_text(record_of(module, "llvm -mcpu=nehalem"))
    with refused(TuningLogError, "nehalem"):
        read_autotvm_log(tmp_path / "log", TARGET)


@pytest.mark.parametrize("content", ["", "not JSON\n"])
def test_what_is_no_log(content: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(content)
    with refused(TuningLogError, tmp_path / "log"):
        read_autotvm_log(tmp_path / "log", TARGET)
    with refused(TuningLogError, tmp_path):
        read_autotvm_log(tmp_path, TARGET)
