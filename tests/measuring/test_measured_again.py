"""Other work slows down one measurement: what it makes doubtful is measured again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.measuring.sleeping_device import SleepingDevice, timer_of
from tests.random_dags import graph_of
from tvm_ios.costs.log import MEASUREMENTS, MeasurementLog
from tvm_ios.costs.log_lines import LogHeader
from tvm_ios.measuring.device import Function
from tvm_ios.program.program import Program

GRAPH = graph_of((0, 0b1), ["kind0", "kind1"])


@dataclass
class _BusyDevice(SleepingDevice):
    """Programs take what ``seconds`` says, and some ten times as long the first time."""

    seconds: Callable[[Program], float] = lambda program: 1e-3 / _lanes(program)
    slowed: Callable[[Program], bool] = lambda program: False
    asked: dict[str, int] = field(default_factory=dict)

    def time_program(
        self, program: Program, function: Function, constants: Mapping[str, Any] = {}
    ) -> list[float]:
        key = repr((program.kernels, program.lanes))
        self.asked[key] = self.asked.get(key, 0) + 1
        slowed = self.asked[key] == 1 and self.slowed(program)
        return [self.seconds(program) * (10 if slowed else 1)] * 3


def _lanes(program: Program) -> int:
    return sum(bool(lane) for lane in program.lanes)


def test_more_lanes_that_seem_to_gain_nothing(tmp_path: Path) -> None:
    device = _BusyDevice(1, lanes=3, slowed=lambda program: _lanes(program) == 2)
    timer = timer_of(GRAPH, device, tmp_path / "log.jsonl")
    timer.compile_units()
    timer.measure_units()
    latencies = [timer.unit_latency(0, lanes) for lanes in (1, 2, 3)]
    assert latencies == [1e-3, 1e-3 / 2, 1e-3 / 3]


def test_what_gains_is_measured_once(tmp_path: Path) -> None:
    device = _BusyDevice(1)
    timer = timer_of(GRAPH, device, tmp_path / "log.jsonl")
    timer.compile_units()
    device.asked.clear()
    timer.measure_units()
    assert set(device.asked.values()) == {1}


def test_more_lanes_that_gain_nothing(tmp_path: Path) -> None:
    device = _BusyDevice(1, seconds=lambda _: 1e-3)
    timer = timer_of(GRAPH, device, tmp_path / "log.jsonl")
    timer.compile_units()
    device.asked.clear()
    timer.measure_units()
    assert set(device.asked.values()) == {MEASUREMENTS}


@pytest.mark.parametrize("disturbed", [True, False])
def test_the_fastest_form(disturbed: bool, tmp_path: Path) -> None:
    """Of each unit ``tuned`` is the fastest, and if it is disturbed only just."""

    def is_tuned(program: Program) -> bool:
        return program.kernels[0].endswith("tuned")

    device = _BusyDevice(
        1,
        seconds=lambda program: 1e-3 if is_tuned(program) else 12e-3,
        slowed=lambda program: disturbed and is_tuned(program),
    )
    timer = timer_of(GRAPH, device, tmp_path / "log.jsonl")
    timer.compile_units()
    assert timer.forms((0,)).key.endswith("tuned")
    assert set(device.asked.values()) == ({2} if disturbed else {1})


def test_a_device_that_is_exact_is_asked_once(tmp_path: Path) -> None:
    log = MeasurementLog(tmp_path / "log.jsonl", LogHeader("device", "target", "tvm"))
    log.append("key", [1.0])
    assert not log.wants("key")
    assert log.wants("key", times=2)
    log.append("key", [1.0])
    assert not log.wants("key", times=2)
    assert log.wants("key", times=3)
    log.reuse()
    assert not log.wants("key", times=2)
