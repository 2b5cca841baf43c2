"""The parameters of our passes: as they are shown, given and checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tvm

from relay_passes import (
    GraphTurboPartition,
    IOSSchedule,
    LegalizeUnits,
    MemorySchedule,
    schedule_of,
)
from relay_passes.pipeline import prepare
from tests.refusals import refused
from tests.relax.relax_sketch import module_of, wide
from tvm_ios.errors import UserError
from tvm_ios.policies.greedy import greedy_schedule


@pytest.fixture(scope="module")
def module() -> tvm.IRModule:
    return module_of([(1, 6, 8, 8)], wide)


SHOWN: dict[str, Callable[[], Any]] = {
    "IOSSchedule(policy='ios-both', cost='measured')": IOSSchedule,
    "IOSSchedule(policy='greedy', cost='v100', memory_budget=9000)": lambda: IOSSchedule(
        "greedy", "v100", memory_budget=9000
    ),
    "IOSSchedule(policy='ios-both', cost='measured', schedule='s.json')": lambda: IOSSchedule(
        schedule="s.json"
    ),
    "MemorySchedule(scheduler='optimal', time_limit=30.0)": MemorySchedule,
    "MemorySchedule(budget=1024, scheduler='optimal', time_limit=30.0)": lambda: MemorySchedule(
        1024
    ),
    "LegalizeUnits()": LegalizeUnits,
    "GraphTurboPartition(device='stcp920', capacity=64)": lambda: GraphTurboPartition(
        "stcp920", capacity=64
    ),
}


@pytest.mark.parametrize("text", SHOWN)
def test_passes_show_their_parameters(
    text: str, module: tvm.IRModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    units = prepare(module).units
    greedy_schedule(units).save(Path("s.json"), units)
    shown = SHOWN[text]()
    assert repr(shown) == str(shown) == text


@pytest.mark.parametrize("form", ["schedule", "text", "path", "name"])
def test_a_schedule_is_given_in_any_form(form: str, module: tvm.IRModule, tmp_path: Path) -> None:
    units = prepare(module).units
    wanted, path = greedy_schedule(units), tmp_path / "schedule.json"
    wanted.save(path, units)
    given = {
        "schedule": wanted,
        "text": json.dumps(wanted.to_json(units)),
        "path": path,
        "name": str(path),
    }[form]
    assert schedule_of(IOSSchedule(schedule=given)(module)) == wanted


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "policy": (lambda: IOSSchedule("nothing"), "'nothing'"),
    "device": (lambda: IOSSchedule(cost="abacus"), "'abacus'"),
    "budget": (lambda: IOSSchedule(memory_budget=0), "0"),
    "no file": (lambda: IOSSchedule(schedule="nowhere.json"), "nowhere.json"),
    "no schedule": (lambda: IOSSchedule(schedule="{}"), "schedule"),
    "no text": (lambda: IOSSchedule(schedule="{"), "schedule"),
    "scheduler": (lambda: MemorySchedule(scheduler="nobody"), "'nobody'"),
    "memory": (lambda: MemorySchedule(-1), "-1"),
    "time": (lambda: MemorySchedule(time_limit=0), "0"),
    "hierarchy": (lambda: GraphTurboPartition("tpu"), "'tpu'"),
    "capacity": (lambda: GraphTurboPartition(capacity=0), "0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_parameters_are_checked_when_a_pass_is_made(case: str) -> None:
    make, named = WRONG[case]
    with refused(UserError, named):
        make()
