"""Servers that die, hang or are slow cost their trials, and nothing more."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime_ext.fleet import connection as connections
from runtime_ext.fleet import machine as machines
from runtime_ext.fleet import pool as pools
from runtime_ext.fleet.calibration import calibration_trial
from runtime_ext.fleet.choice import FleetChoice
from runtime_ext.fleet.device import FleetDevice
from runtime_ext.fleet.machine import Trial
from runtime_ext.fleet.opening import open_fleet
from runtime_ext.fleet.pool import FleetLostError
from tests.fleet.servers import KEY, Processes, running
from tvm_ios.errors import UserError
from tvm_ios.program.program_json import program_from_json

pytestmark = pytest.mark.slow

#: Other tests may run beside these: servers of one machine then differ, and do not answer at once.
_TOLERANCE = 100.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hanging servers are given up in seconds."""
    monkeypatch.setattr(machines, "_FIRST_RUN_SECONDS", 8.0)
    monkeypatch.setattr(connections, "_ANSWER_SECONDS", 8.0)
    monkeypatch.setattr(pools, "_PATIENCE", 8.0)


@contextmanager
def fleet_of(
    processes: Processes, folder: Path, tolerance: float = _TOLERANCE
) -> Generator[FleetDevice]:
    device = open_fleet(FleetChoice(processes.tracker, KEY, None, tolerance), folder, lanes=1)
    try:
        yield device
    finally:
        device.close()


def measures(device: FleetDevice, folder: Path) -> Callable[[], str]:
    """What times a program once, and gives the machine that did."""
    trial: Trial = calibration_trial(device.compiler(folder), 1)
    program = program_from_json(trial.program)
    libraries = dict(zip(program.kernels, trial.libraries, strict=True))

    def measure() -> str:
        samples = device.time_program(program, libraries.__getitem__)
        assert all(s > 0 for s in samples)
        return samples.machine  # pyright: ignore[reportAttributeAccessIssue]

    return measure


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_server_that_dies_or_hangs_costs_its_trial(
    number: signal.Signals, kernels_folder: Path
) -> None:
    with running(3) as processes, fleet_of(processes, kernels_folder) as device:
        measure = measures(device, kernels_folder)
        assert device.concurrency == 3
        bad, *others = processes.servers
        first = {measure() for _ in range(6)}
        assert first == set(processes.servers)
        processes.signal(bad, number)
        assert {measure() for _ in range(6)} == set(others)
        assert [gone.machine for gone in device.lost] == [bad]
        if number is signal.SIGSTOP:
            # It is asked for again, once it serves again.
            processes.signal(bad, signal.SIGCONT)
            end = time.monotonic() + 60
            while measure() != bad:
                assert time.monotonic() < end, "it did not come back"
        assert not device.exhausted


def test_several_callers_measure_at_once(kernels_folder: Path) -> None:
    with running(2) as processes, fleet_of(processes, kernels_folder) as device:
        measure = measures(device, kernels_folder)
        measured: list[str] = []
        callers = [
            threading.Thread(target=lambda: measured.extend(measure() for _ in range(5)))
            for _ in range(4)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert len(measured) == 20
        assert set(measured) == set(processes.servers)


def test_without_a_server_left_the_fleet_says_so(kernels_folder: Path) -> None:
    with running(1) as processes, fleet_of(processes, kernels_folder) as device:
        measure = measures(device, kernels_folder)
        (only,) = processes.servers
        processes.signal(only, signal.SIGKILL)
        with pytest.raises(FleetLostError, match=only):
            measure()
        assert device.exhausted


def test_a_slow_server_is_left_out_and_named(kernels_folder: Path) -> None:
    with running(3) as processes:
        slow, *_ = processes.servers
        with slowed(processes, slow), fleet_of(processes, kernels_folder, 0.5) as device:
            assert slow in {gone.machine for gone in device.left_out}
            (reason,) = (gone.why for gone in device.left_out if gone.machine == slow)
            assert "times as long" in reason


def test_a_server_that_hangs_before_it_is_asked_is_left_out(kernels_folder: Path) -> None:
    with running(2) as processes:
        hanging, other = processes.servers
        processes.signal(hanging, signal.SIGSTOP)
        with fleet_of(processes, kernels_folder) as device:
            assert [gone.machine for gone in device.left_out] == [hanging]
            assert measures(device, kernels_folder)() == other


def test_more_lanes_and_levels_than_the_servers_have_are_refused(kernels_folder: Path) -> None:
    with running(1) as processes:
        choice = FleetChoice(processes.tracker, KEY)
        with pytest.raises(UserError, match="999 lanes"):
            open_fleet(choice, kernels_folder, lanes=999)
        processes.wait(1)
        with pytest.raises(UserError, match="aarch64"):
            open_fleet(choice, kernels_folder, level="aarch64")
        processes.wait(1)
        with fleet_of(processes, kernels_folder), pytest.raises(UserError, match="serve others"):
            open_fleet(choice, kernels_folder)


def test_a_server_of_ours_has_the_executor(kernels_folder: Path) -> None:
    with running(0) as processes:
        server = processes.start(ours=True)
        with fleet_of(processes, kernels_folder) as device:
            assert measures(device, kernels_folder)() == server


@contextmanager
def slowed(processes: Processes, server: str) -> Generator[None]:
    """A server that is stopped most of the time."""
    ended = threading.Event()

    def stop_and_go() -> None:
        while not ended.is_set():
            processes.signal(server, signal.SIGSTOP)
            time.sleep(0.04)
            processes.signal(server, signal.SIGCONT)
            time.sleep(0.005)

    thread = threading.Thread(target=stop_and_go)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
