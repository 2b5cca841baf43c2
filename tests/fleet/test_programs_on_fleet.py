"""Whole programs and tuning trials on servers, as a user runs them and as sessions."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

from runtime_ext.execution.executable import load
from runtime_ext.fleet import device as devices
from runtime_ext.fleet import pool as pools
from runtime_ext.fleet.choice import FleetChoice
from runtime_ext.fleet.connection import Connection
from runtime_ext.fleet.device import FleetDevice
from runtime_ext.fleet.machine import Machine
from runtime_ext.fleet.opening import open_fleet
from runtime_ext.fleet.program_session import ProgramSession
from tests.brief import shorten
from tests.cli.command_line import tvm_ios
from tests.fleet.servers import KEY, Processes, running

pytestmark = pytest.mark.slow
MODEL = ("two_inputs", "--lanes", 1, "-r", 2, "-s", 3)
OPTIMIZE = ("optimize", *MODEL, "--policy", "sequential,greedy", "--json")


@pytest.fixture(scope="module")
def processes() -> Generator[Processes]:
    with running(1) as started:
        yield started


@pytest.fixture(scope="module")
def executable(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `optimize` keeps, and what it says of it."""
    folder = tmp_path_factory.mktemp("optimized")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TVM_IOS_CACHE", str(folder / "cache"))
        shorten(patch.setattr)
        options = ("--policy", "greedy,ios-both", "-o", folder / "out", *processes.options)
        done = tvm_ios("optimize", *MODEL, "--json", *options).json
    (folder / "said.json").write_text(json.dumps(done))
    processes.wait(1)
    return folder / "out"


def test_programs_are_verified_and_compared_there(executable: Path) -> None:
    done = json.loads((executable.parent / "said.json").read_text())
    rows = {row["policy"]: row for row in done["policies"]}
    assert rows.keys() == {"sequential", "greedy", "ios-both"}, "TVM's own is not compared with"
    assert all(row["latency_ms"] > 0 for row in rows.values())
    assert all(0 <= row["max_rel_error"] < 1e-4 for row in rows.values())
    assert done["kept"] in rows
    assert done["fleet"] == {"machines": 1, "left_out": [], "lost": []}
    assert any("fleet" in note for note in done["notes"])
    notes = json.loads((executable / "meta.json").read_text())["notes"]
    assert "1 lanes" in notes["timed_on"]
    assert tvm_ios("run", executable).code == 0


def test_outputs_come_back_and_files_are_sent_once(
    executable: Path, processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    send = Connection.send

    def counted(self: Connection, name: str, content: bytes) -> None:
        sent.append(name)
        send(self, name, content)

    monkeypatch.setattr(Connection, "send", counted)
    fleet = open_fleet(FleetChoice(processes.tracker, KEY), tmp_path, lanes=1)
    loaded = load(executable).session()
    inputs = loaded.random_inputs(3)
    loaded.run(**inputs)

    def on(machine: Machine) -> None:
        before = len(sent)
        for again in range(2):
            session = ProgramSession(machine, executable)
            assert session.run(**inputs) > 0
            assert session.run() > 0, "inputs set before stay"
            np.testing.assert_array_equal(session.get_output(0), loaded.get_output(0))
            session.close()
            files = {path.name for path in executable.iterdir()}
            assert len(sent) - before <= len(files), again
        fleet.renew(machine)
        session = ProgramSession(machine, executable)
        session.run(**inputs)
        np.testing.assert_array_equal(session.get_output(0), loaded.get_output(0))

    fleet.on_a_machine(on)
    fleet.close()
    processes.wait(1)


@pytest.fixture
def killed_before_confirmation(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> list[str]:
    """Servers that are killed when a contest begins to confirm: the first one that does."""
    killed: list[str] = []
    renew = FleetDevice.renew

    def kill_and_renew(self: FleetDevice, machine: Machine) -> None:
        if not killed:
            killed.append(machine.address)
            processes.kill(machine.address)
        renew(self, machine)

    monkeypatch.setattr(FleetDevice, "renew", kill_and_renew)
    monkeypatch.setattr(pools, "_PATIENCE", 8.0)
    # Other tests may run beside these: servers of one machine then differ.
    monkeypatch.setattr(devices, "differing", lambda *_: {})
    monkeypatch.setenv("TVM_IOS_CACHE", str(tmp_path / "cache"))
    shorten(monkeypatch.setattr)
    return killed


def test_a_contest_begins_again_where_its_machine_is_lost(
    processes: Processes, killed_before_confirmation: list[str], tmp_path: Path
) -> None:
    processes.start()
    assert len(processes.servers) == 2
    done = tvm_ios(*OPTIMIZE, "-o", tmp_path / "out", *processes.options).json
    assert {row["policy"] for row in done["policies"]} == {"sequential", "greedy"}
    lost = done["fleet"]["lost"]
    assert [gone["machine"] for gone in lost] == killed_before_confirmation, lost
    assert len(killed_before_confirmation) == 1
    assert tvm_ios("run", tmp_path / "out").code == 0
    processes.wait(1)


def test_without_another_machine_one_sentence_says_so(
    processes: Processes, killed_before_confirmation: list[str], tmp_path: Path
) -> None:
    (only,) = processes.servers
    tvm_ios(*OPTIMIZE, "-o", tmp_path / "out", *processes.options).refuses(only, KEY)
    assert killed_before_confirmation == [only]
    assert not (tmp_path / "out").exists()
    processes.start()


def test_trials_are_timed_there(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xgboost")
    monkeypatch.setenv("TVM_IOS_CACHE", str(tmp_path / "cache"))
    log = ("--log", tmp_path / "log", "--trials", 2, "--json")
    tune = ("tune", "inception_block", "--lanes", 1, "-r", 1, "-s", 2, *log)
    done = tvm_ios(*tune, *processes.options).json
    assert done["kernels"]
    assert all(row["new_trials"] == 2 for row in done["kernels"] if row["weight"])
    assert all(0 < row["tuned_ms"] <= row["default_ms"] for row in done["kernels"])
    assert (done["failed"], done["missing"]) == ({}, 0)
    assert done["fleet"]["machines"] == 1
    # The log is of the machines' target, which is this machine's: it goes on here.
    assert all(row["new_trials"] == 0 for row in tvm_ios(*tune).json["kernels"] if row["weight"])
