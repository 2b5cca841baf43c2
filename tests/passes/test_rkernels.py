"""The rKernels of units: profiled once, remembered, and built where a schedule names them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.prepared import Prepared
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.build import build
from runtime_ext.cpu import device as cpu_device
from runtime_ext.execution.built_model import BuiltModel
from runtime_ext.execution.executable import load
from runtime_ext.ir_form import KERNEL, UNIT
from runtime_ext.scheduled_module import read_scheduled_module
from tests.refusals import refused
from tests.relax.relax_sketch import LANES, RelaxSketch, inputs_of, module_of, outputs_of, run
from tvm_ios.errors import UserError
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.program.program import Launch
from tvm_ios.schedule.rkernel import RKernel
from tvm_ios.schedule.schedule import Schedule


def twins(s: RelaxSketch, x: Any) -> Any:
    """Two equal convolutions, units 0 and 1, and a softmax of their sum."""
    first, second = (s.emit(relax.op.nn.relu(s.bias(s.conv(x, 96)))) for _ in range(2))
    return s.emit(relax.op.nn.softmax(s.emit(relax.op.add(first, second)), axis=1))


@pytest.fixture(scope="module")
def module() -> tvm.IRModule:
    return module_of([(1, 6, 13, 18)], twins)


@pytest.fixture(scope="module")
def prepared(module: tvm.IRModule) -> Prepared:
    network = prepare(module)
    assert [op.kind for op in network.units.operators[:2]] == ["conv2d+bias_add+relu"] * 2
    return network


def searching(prepared: Prepared, cache: Path) -> MeasuredModule[RelaxUnits]:
    return MeasuredModule(RelaxUnits(prepared, SearchOptions(lanes=LANES, cache=cache)))


def simulate(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace clocks: a tile takes as many microseconds as its phase's number; what was asked."""
    asked: list[str] = []

    def profile(program: Any, function: Any) -> list[list[float]]:
        (lane,) = program.lanes
        launches = [item for item in lane if isinstance(item, Launch)]
        asked.append(next(iter(program.kernels)))
        return [[1e-6 * (i + 1), 9.0, 1e-9] for i in range(len(launches))]

    def time(program: Any, function: Any) -> list[float]:
        return [3e-3, 1e-3, 2e-3]

    monkeypatch.setattr(cpu_device, "profile_phases", profile)
    monkeypatch.setattr(cpu_device, "time_program", time)
    return asked


def test_equal_units_are_profiled_once_and_remembered(
    prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = simulate(monkeypatch)
    search = searching(prepared, tmp_path)
    search.timer.compile_units()
    before = search.units.backend.compiler.compiled
    default, coarse, fine = search.timer.rkernels(0)
    assert (default.name, coarse.name, fine.name) == ("default", "coarse", "fine")
    assert search.units.backend.compiler.compiled == before + 2, (
        "compiled when asked for, and not earlier"
    )
    rkernels = [search.timer.rkernels(unit) for unit in range(len(prepared.units))]
    assert rkernels[0] == rkernels[1] == (default, coarse, fine)
    assert coarse.tasks < default.tasks < fine.tasks
    assert all(k.task_seconds == (1e-6,) and k.seconds == 2e-3 for k in rkernels[0])
    assert default.work == pytest.approx(default.tasks[0] * 1e-6)
    forms = sum(len(kernels) for kernels in rkernels) - len(rkernels[0])
    assert len(asked) == len(set(asked)) == forms

    again = searching(prepared, tmp_path)
    monkeypatch.setattr(cpu_device, "profile_phases", lambda *_: pytest.fail("it is in the log"))
    monkeypatch.setattr(cpu_device, "time_program", lambda *_: pytest.fail("it is in the log"))
    told: list[str] = []
    again.timer.rkernels.measure(lambda what, *_: told.append(what))
    assert {"compiling rKernels", "profiling rKernels"} <= set(told)
    assert [again.timer.rkernels(unit) for unit in range(len(prepared.units))] == rkernels
    assert again.timer.stages_measured == 0


def test_a_real_profile_is_of_each_phase(prepared: Prepared, cache: Path) -> None:
    timer = searching(prepared, cache).timer
    timer.rkernels.measure()
    for unit in range(len(prepared.units)):
        code = timer.forms.generated((unit,)).code
        first, *others = timer.rkernels(unit)
        assert first.name == "default"
        assert first.tasks == tuple(call.tiles for call in code.calls)
        for rkernel in (first, *others):
            assert isinstance(rkernel, RKernel)
            assert len(rkernel.task_seconds) == len(rkernel.tasks)
            assert min(rkernel.task_seconds) > 0
            assert rkernel.seconds > 0


def tiles(model: BuiltModel, unit: str) -> int:
    """Tiles of a unit's only kernel."""
    number = model.program.units.index(unit)
    launches = [i for lane in model.program.lanes for i in lane if isinstance(i, Launch)]
    return max(launch.end for launch in launches if launch.unit == number)


def test_a_choice_goes_from_file_to_program(
    module: tvm.IRModule, prepared: Prepared, cache: Path, tmp_path: Path
) -> None:
    """Two equal units in two forms, in one program, which is saved."""
    plain = sequential_schedule(prepared.units)
    usual = apply_schedule(prepared, plain)
    assert "ios.kernel" not in usual.script()
    replace(plain, kernels={1: "fine"}).save(tmp_path / "schedule.json", prepared.units)
    chosen = apply_schedule(prepared, Schedule.load(tmp_path / "schedule.json"))
    named = {
        str(f.attrs[UNIT]): str(f.attrs[KERNEL])
        for f in chosen.functions.values()
        if f.attrs and KERNEL in f.attrs
    }
    first, second = (op.name for op in prepared.units.operators[:2])
    assert named == {second: "fine"}
    chosen = tvm.ir.load_json(tvm.ir.save_json(chosen))
    assert read_scheduled_module(chosen).kernels == {1: "fine"}
    assert read_scheduled_module(usual).kernels == {}

    models = [build(scheduled, lanes=LANES) for scheduled in (usual, chosen)]
    assert tiles(models[0], first) == tiles(models[0], second) == tiles(models[1], first)
    assert tiles(models[1], second) > tiles(models[1], first)
    inputs = inputs_of(module)
    (wanted,) = outputs_of(models[0], inputs)
    (expected,) = run(module, inputs)
    assert np.abs(wanted - expected).max() <= 1e-5

    models[1].save(tmp_path / "executable")
    for other in (models[1], load(tmp_path / "executable")):
        assert outputs_of(other, inputs)[0].tobytes() == wanted.tobytes()


def test_teams_are_sized_by_the_latencies_of_the_usual_form(
    prepared: Prepared, cache: Path
) -> None:
    """What was measured says that one lane is as good as two; the choice of a form keeps that."""
    units = range(len(prepared.units))
    schedule = replace(sequential_schedule(prepared.units), kernels={0: "coarse"})
    one, two = (
        build(
            apply_schedule(
                prepared, replace(schedule, unit_latencies=dict.fromkeys(units, seconds))
            ),
            lanes=LANES,
        )
        for seconds in ((1.0, 1.0), (1.0, 0.5))
    )
    assert [bool(lane) for lane in one.program.lanes] == [True, False]
    assert [bool(lane) for lane in two.program.lanes] == [True, True]


@pytest.mark.parametrize(("kernel", "there"), [("finest", "default, coarse, fine"), ("tuned", "")])
def test_an_unknown_kernel_is_refused(
    prepared: Prepared, cache: Path, kernel: str, there: str
) -> None:
    schedule = replace(sequential_schedule(prepared.units), kernels={0: kernel})
    name = prepared.units.operators[0].name
    with refused(UserError, repr(name), repr(kernel)):
        build(apply_schedule(prepared, schedule), lanes=LANES)
