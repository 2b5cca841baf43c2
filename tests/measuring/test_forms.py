"""A unit that a tuning log knows is measured in both forms, and the faster one is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm.s_tir import meta_schedule

from relay_passes.load import load_model
from relay_passes.measured_module import MeasuredModule
from relay_passes.pipeline import apply_schedule, prepare
from relay_passes.prepared import Prepared
from relay_passes.relax.target_units import RelaxUnits
from relay_passes.search_options import SearchOptions
from runtime_ext.build import build
from runtime_ext.cpu import device as cpu_device
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.levels import isa_of
from runtime_ext.machine.this_machine import host_target
from runtime_ext.tuning.contraction_task import ContractionTask
from runtime_ext.tuning.tune_model import tuning_tasks
from runtime_ext.tuning_log.folder import open_log
from runtime_ext.tuning_log.use import LogUse
from runtime_ext.tuning_log.workload import contraction_workload
from tvm_ios.api.tune import model_to_tune
from tvm_ios.ios.ending_space import Pruning
from tvm_ios.policies.policy import Limits
from tvm_ios.program.program import Program


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(load_model("inception_block").module)


def write_log(folder: Path, tasks: list[ContractionTask]) -> None:
    """A record each: the last point of the space, which is not the default."""
    target = host_target(2)
    space = VectorSpace(isa_of(target))
    with open_log(folder, target) as log:
        for task in tasks:
            point = space.points(task.spec)[-1]
            assert point != space.explicit(task.spec)
            module = contraction_workload(task.spec)
            trace = space.schedule(task.spec, module, point).trace
            arguments = meta_schedule.arg_info.ArgInfo.from_entry_func(module, False)
            kept = log.database.commit_workload(module)
            log.database.commit_tuning_record(
                meta_schedule.database.TuningRecord(trace, kept, [1e-6], target, arguments)
            )


def searching(prepared: Prepared, cache: Path, log: Path | None) -> MeasuredModule[RelaxUnits]:
    # The log's forms and the default ones alone.
    limits = Limits(pruning=Pruning(2, 2))
    options = SearchOptions(lanes=2, cache=cache, database=log, winograd="off", limits=limits)
    return MeasuredModule(RelaxUnits(prepared, options))


def test_the_faster_form_is_kept_for_each_unit(
    prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = searching(prepared, tmp_path, None)
    tasks = [
        task
        for task in tuning_tasks(model_to_tune(plain), plain.units.backend.compiler.space)
        if task.weight
    ]
    first, second = tasks[0], tasks[3]
    write_log(tmp_path / "log", [first, second])
    plain.timer.compile_units()
    number = {op.name: i for i, op in enumerate(prepared.units.operators)}
    default = {name: plain.timer.forms((number[name],)) for name in (first.name, second.name)}

    def fake(program: Program, function: Any) -> list[float]:
        """The log is right about the second and wrong about the first."""
        slow = {f"k{key}_0" for key in default[second.name].kernels}
        fast = {f"k{key}_0" for key in default[first.name].kernels}
        kernels = set(program.kernels)
        return [1e-3 if kernels & fast else 3e-3 if kernels & slow else 2e-3] * 3

    monkeypatch.setattr(cpu_device, "time_program", fake)
    tuned = searching(prepared, tmp_path, tmp_path / "log")
    tuned.timer.compile_units()
    assert tuned.timer.stages_measured == 4, "two units in two forms"
    assert tuned.timer.forms((number[first.name],)) == default[first.name]
    chosen = tuned.timer.forms((number[second.name],))
    assert chosen.kernels != default[second.name].kernels
    assert chosen.tuned
    assert tuned.units.backend.compiler.log_use() == LogUse(found=2, used=1, missing=len(tasks) - 2)

    # What is built afterwards has the kernels that were kept, whatever the policy.
    again = searching(prepared, tmp_path, tmp_path / "log")
    schedule = again.search.find("sequential").schedule
    built = build(
        apply_schedule(prepared, schedule), lanes=2, compiler=again.units.backend.compiler
    )
    assert {f"k{key}_0" for key in chosen.kernels} <= set(built.program.kernels)
    assert {f"k{key}_0" for key in default[first.name].kernels} <= set(built.program.kernels)

    # The measurement log remembers both forms.
    monkeypatch.setattr(
        cpu_device, "time_program", lambda *_: pytest.fail("it was measured before")
    )
    again = searching(prepared, tmp_path, tmp_path / "log")
    again.timer.compile_units()
    assert again.timer.forms((number[second.name],)) == chosen


@pytest.mark.slow
def test_forms_of_the_log_are_rkernels(
    prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that stages use comes first, and the others can be asked for by name."""
    plain = searching(prepared, tmp_path, None)
    tasks = tuning_tasks(model_to_tune(plain), plain.units.backend.compiler.space)
    task = next(task for task in tasks if task.weight)
    write_log(tmp_path / "log", [task])
    number = next(i for i, op in enumerate(prepared.units.operators) if op.name == task.name)
    usual = searching(prepared, tmp_path, None).timer.forms((number,))

    def fake(program: Program, function: Any) -> list[float]:
        return [2e-3 if set(program.kernels) & {f"k{key}_0" for key in usual.kernels} else 1e-3]

    monkeypatch.setattr(cpu_device, "time_program", fake)
    tuned = searching(prepared, tmp_path, tmp_path / "log")
    schedule = tuned.search.find("sequential").schedule
    first, second, *_ = tuned.timer.rkernels(number)
    assert (first.name, first.seconds) == ("tuned", 1e-3)
    assert (second.name, second.seconds) == ("default", 2e-3)
    for name, is_usual in (("tuned", False), ("default", True), ("", False)):
        chosen = replace(schedule, kernels={number: name} if name else {})
        built = build(
            apply_schedule(prepared, chosen), lanes=2, compiler=tuned.units.backend.compiler
        )
        assert bool({f"k{k}_0" for k in usual.kernels} & set(built.program.kernels)) == is_usual


@pytest.mark.slow
def test_merged_units_are_measured_in_both_forms_too(
    prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = searching(prepared, tmp_path, None)
    task = next(
        task
        for task in tuning_tasks(model_to_tune(plain), plain.units.backend.compiler.space)
        if task.merged
    )
    write_log(tmp_path / "log", [task])
    number = {op.name: i for i, op in enumerate(prepared.units.operators)}
    units = tuple(number[name] for name in task.name.split("+"))
    slow = {f"k{key}_0" for key in plain.timer.forms(units).kernels}

    def fake(program: Program, function: Any) -> list[float]:
        return [2e-3 if set(program.kernels) & slow else 1e-3] * 3

    monkeypatch.setattr(cpu_device, "time_program", fake)
    tuned = searching(prepared, tmp_path, tmp_path / "log")
    chosen = tuned.timer.forms(units)
    assert chosen.tuned
    assert not {f"k{key}_0" for key in chosen.kernels} & slow
    assert tvm.__version__ in (tmp_path / "log" / "tvm-ios-log.json").read_text()
