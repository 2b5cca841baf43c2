"""Trials are dealt to machines, compared with what each machine takes for the first one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from runtime_ext.cpu.device import Sampling
from runtime_ext.fleet.connection import TrialError
from runtime_ext.fleet.device import FleetDevice
from runtime_ext.fleet.kernel_timer import FleetKernelTimer
from tvm_ios.measuring.timing_device import UntimedError


@dataclass
class Fleet:
    """Machines of different speeds; a trial is a number here, its seconds at speed 1."""

    speeds: Sequence[float]
    broken: frozenset[int] = frozenset()
    failing: frozenset[int] = frozenset()
    calls: list[list[int]] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.Lock)

    @property
    def concurrency(self) -> int:
        return len(self.speeds)

    def time_in_turn(
        self, trials: Sequence[int], sampling: Sampling, rounds: int
    ) -> list[list[float] | TrialError]:
        with self._lock:
            number = len(self.calls)
            self.calls.append([*trials])
        if self.broken.intersection(trials):
            raise UntimedError("three machines were lost with it")
        speed = self.speeds[number % len(self.speeds)]
        times = [[t * speed * noise for noise in (1.0, 1.2)] for t in trials]
        failed = TrialError("it fails there")
        return [failed if t in self.failing else s for t, s in zip(trials, times, strict=True)]


def measure(fleet: Fleet, trials: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    monkeypatch.setattr(FleetKernelTimer, "_trials", lambda self, specs: specs)
    return FleetKernelTimer(cast(FleetDevice, fleet)).measure(cast(Any, trials))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("machines", [1, 2, 3])
def test_times_are_those_of_equal_machines(
    count: int, machines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet((1.0, 1.05, 1.1)[:machines])
    trials = [10, *range(1, count)]
    assert measure(fleet, trials, monkeypatch) == pytest.approx(trials)
    assert len(fleet.calls) == max(1, min(machines, count - 1))
    assert all(call[0] == 10 for call in fleet.calls), "each machine has the first"
    assert sorted(t for call in fleet.calls for t in call[1:]) == trials[1:]


def test_a_trial_that_fails_costs_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet((1.0, 1.0), failing=frozenset({3}))
    inf = float("inf")
    assert measure(fleet, [10, 1, 2, 3, 4], monkeypatch) == pytest.approx([10, 1, 2, inf, 4])


def test_one_that_ends_its_machine_too(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet((1.0, 1.0), broken=frozenset({3}))
    inf = float("inf")
    assert measure(fleet, [10, 1, 2, 3, 4, 5], monkeypatch) == [10, 1, 2, inf, 4, 5]
    assert [10, 1, 3, 5] in fleet.calls
    assert [10, 3] in fleet.calls


@pytest.mark.parametrize(
    "fleet",
    [Fleet((1.0, 1.0), broken=frozenset({10})), Fleet((1.0, 1.0), failing=frozenset({10}))],
)
def test_without_the_first_nothing_is_known(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    assert measure(fleet, [10, 1, 2, 3], monkeypatch) == [float("inf")] * 4
