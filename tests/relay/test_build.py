"""What runs of a scheduled Relay module computes what TVM's graph executor does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay
from tvm.relay.backend import te_compiler

import runtime_ext
from relay_passes import IOSSchedule, SearchOptions, schedule_of
from relay_passes.pipeline import apply_schedule, prepare
from runtime_ext.build import build
from runtime_ext.ir_form import ModuleError
from runtime_ext.relay.build_information import keep_build_information
from runtime_ext.relay.factory import RelayBuildError
from tests.fast_run import only
from tests.forced_schedules import merge_first
from tests.onnx_sketch import relative_error
from tests.refusals import refused
from tests.relay.relay_sketch import RelaySketch, inputs_of, mixed, module_of, run
from tvm_ios.api.documents.page import page_document
from tvm_ios.errors import SearchError
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.lazy import Budget
from tvm_ios.policies.greedy import greedy_schedule
from tvm_ios.policies.nimble import nimble_schedule
from tvm_ios.policies.opara import opara_schedule
from tvm_ios.policies.policy import Limits
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.program import Launch
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy


@pytest.fixture(scope="module")
def built() -> Any:
    module = module_of([(1, 3, 9, 9)], mixed)
    prepared = prepare(module)
    return build(apply_schedule(prepared, merge_first(prepared)), lanes=2), module


def results(session: Any, module: Any) -> list[Any]:
    for name, value in inputs_of(module).items():
        session.set_input(**{name: value})
    session.run()
    return [session.get_output(i) for i in range(2)]


def test_computes_the_same_on_two_lanes(built: Any) -> None:
    model, module = built
    check_races(model.program)
    assert sum(len(lane) > 0 for lane in model.program.lanes) == 2
    assert relative_error(results(model.session(), module), run(module)) <= 1e-5


@pytest.mark.parametrize("make", only([opara_schedule], [nimble_schedule, opara_schedule]))
def test_streams_compute_the_same(make: Callable[[OpGraph], Schedule]) -> None:
    module = module_of([(1, 3, 9, 9)], mixed)
    prepared = prepare(module)
    schedule = make(prepared.units)
    assert len(schedule.stages[0].groups) > 1
    model = build(apply_schedule(prepared, schedule), lanes=2)
    check_races(model.program)
    assert relative_error(results(model.session(), module), run(module)) <= 1e-5


def test_no_order_of_its_tiles_changes_a_bit(built: Any) -> None:
    model, module = built
    assert any(use.tiles > 1 for use in model.program.uses)
    # One that pads runs two loops.
    assert any(symbol.endswith("__1") for symbol in model.program.kernels)
    usual = results(model.session(), module)
    for ours, theirs in zip(
        results(model.session(executor="reference"), module), usual, strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("width", "loops"), [(12, False), (13, True)])
def test_loops_that_share_the_stack_run_whole(width: int, loops: bool) -> None:
    """A padded image of 1,008 bytes, which TVM takes from the stack, and one of 1,080."""
    module = module_of([(1, 3, 6, width)], lambda s, x: s.conv(x, 3, 5, (1, 3)))
    model = build(IOSSchedule("sequential")(module), lanes=2)
    assert any(symbol.endswith("__1") for symbol in model.program.kernels) == loops
    session = model.session()
    session.run(**inputs_of(module))
    assert relative_error([session.get_output(0)], run(module)) <= 1e-5


def test_truth_values_are_given_passed_on_and_made() -> None:
    x, flag = relay.var("x", shape=(4, 6)), relay.var("flag", shape=(4, 6), dtype="bool")
    large = relay.greater(relay.nn.softmax(x), relay.const(np.float32(0.2)))
    both = relay.logical_and(large, flag)
    body = relay.Tuple([relay.where(both, relay.cumsum(x, axis=1), x), relay.logical_not(both)])
    module = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x, flag], body)))
    rng = np.random.default_rng(0)
    inputs = {"x": rng.standard_normal((4, 6), np.float32), "flag": rng.random((4, 6)) < 0.7}
    prepared = prepare(module)
    scheduled = apply_schedule(prepared, greedy_schedule(prepared.units))
    session = build(scheduled, lanes=2).session()
    session.run(**inputs)
    for place, expected in enumerate(run(module, inputs)):
        found = session.get_output(place)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_what_calls_the_runtime_of_tvm_is_refused() -> None:
    module = module_of([(3, 8)], lambda s, x: relay.sort(x))
    prepared = prepare(module)
    scheduled = apply_schedule(prepared, greedy_schedule(prepared.units))
    with refused(RelayBuildError, "sort", "tvm.contrib.sort.sort"):
        build(scheduled, lanes=1)


def test_a_module_without_a_schedule_is_refused() -> None:
    with refused(ModuleError, "IOSSchedule"):
        build(module_of([(1, 3)], lambda s, x: relay.nn.relu(x)))


_FOREIGN = """
import importlib.util, sys
import numpy as np
from pathlib import Path
from runtime_ext.execution.executable import load

assert importlib.util.find_spec("tvm") is None
session = load(Path(sys.argv[1])).session()
with np.load(sys.argv[2]) as inputs:
    session.set_input(**inputs)
session.run()
np.save(sys.argv[3], session.get_output(1))
"""


def test_an_executable_runs_without_this_tvm(built: Any, tmp_path: Path) -> None:
    model, module = built
    model.save(tmp_path / "model")
    np.savez(tmp_path / "inputs.npz", **inputs_of(module))
    files = (tmp_path / "model", tmp_path / "inputs.npz", tmp_path / "output.npy")
    environment = {**os.environ, "PYTHONPATH": str(Path(runtime_ext.__file__).parents[1])}
    command = [sys.executable, "-c", _FOREIGN, *map(str, files)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ours = results(model.session(), module)[1]
    np.testing.assert_array_equal(np.load(files[2]), ours)


@pytest.mark.slow
def test_a_page_has_its_units_and_launches(built: Any, tmp_path: Path) -> None:
    model, _ = built
    model.save(tmp_path / "model")
    shown = page_document(tmp_path / "model", repeat=1)
    assert [unit["name"] for unit in shown["units"]] == list(model.program.units)
    assert all(unit["kind"] and unit["flops"] is not None for unit in shown["units"])
    launches = [item for lane in model.program.lanes for item in lane if isinstance(item, Launch)]
    assert len(shown["runs"][-1]["spans"]) == len(launches)


def test_an_output_that_is_a_constant() -> None:
    module = module_of([(1, 3)], lambda s, x: (relay.nn.relu(x), s.normal(2, 2)))
    model = build(IOSSchedule("sequential")(module))
    assert relative_error(results(model.session(), module), run(module)) == 0


def test_a_call_that_a_later_pass_drops_is_not_run() -> None:
    module = module_of([(1, 3)], lambda s, x: (relay.nn.relu(x), relay.exp(x)))
    made = IOSSchedule("sequential")(module)
    first = made["main"].body
    main = relay.Function(made["main"].params, relay.Let(first.var, first.value, first.var))
    changed = tvm.IRModule({"main": main}, attrs=made.attrs)
    built = build(relay.transform.InferType()(changed))
    assert len(built.program.units) == 1
    inputs = inputs_of(module)
    session = built.session()
    session.run(**inputs)
    np.testing.assert_array_equal(session.get_output(0), np.maximum(inputs["x0"], 0))
    session.close()


@pytest.mark.slow
def test_lanes_go_by_measured_latencies_beside_a_merged_stage_too() -> None:
    def body(s: RelaySketch, x: Any) -> Any:
        convolutions = [s.conv(x, 6, 8, (1, 1)), s.conv(x, 6, 8, (1, 1))]
        return *convolutions, relay.exp(x), relay.tanh(x), relay.sigmoid(x)

    prepared = prepare(module_of([(1, 6, 8, 8)], body))
    first, second, *others = range(len(prepared.units))
    stages = (
        Stage(Strategy.MERGE, ((first,), (second,))),
        Stage(Strategy.CONCURRENT, tuple((unit,) for unit in others)),
    )
    schedule = Schedule(prepared.units.fingerprint, stages, "by hand")
    names = [op.name for op in prepared.units.operators]
    for slow in others:
        known = {unit: (1.0, 0.5) for unit in others} | {slow: (2.0, 1.0)}
        made = apply_schedule(prepared, replace(schedule, unit_latencies=known))
        program = build(made, lanes=2).program
        lanes = [
            {program.units[item.unit] for item in lane if isinstance(item, Launch)}
            for lane in program.lanes
        ]
        (of_slow,) = (lane for lane in lanes if names[slow] in lane)
        assert not any(names[unit] in of_slow for unit in others if unit != slow)
        assert f"{names[first]}+{names[second]}" in set.intersection(*lanes)


def test_a_measured_schedule(built: Any, tmp_path: Path) -> None:
    _, module = built
    options = SearchOptions(
        lanes=2, cache=tmp_path, limits=Limits(budget=Budget(max_measurements=6))
    )
    made = IOSSchedule("ios-both", options=options)(module)
    schedule = schedule_of(made)
    assert schedule is not None
    assert schedule.policy == "ios-both"
    assert len(schedule.latencies) == len(schedule.stages)
    session = build(made, lanes=2).session()
    assert relative_error(results(session, module), run(module)) <= 1e-5
    with refused(SearchError, "'rammer'", "rTasks"):
        IOSSchedule("rammer", options=options)(module)


def test_tvm_is_asked_once_what_it_was_built_with(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(te_compiler, "libinfo", lambda: asked.append("asked") or {})
    keep_build_information.cache_clear()
    keep_build_information()
    keep_build_information()
    assert te_compiler.libinfo() is te_compiler.libinfo()
    assert asked == ["asked"]
