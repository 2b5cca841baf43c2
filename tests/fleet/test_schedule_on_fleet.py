"""``tvm-ios schedule`` on servers, as a user runs it."""

from __future__ import annotations

import json
import signal
import threading
import time
from pathlib import Path

import pytest

from runtime_ext.fleet import opening
from tests.cli.command_line import tvm_ios
from tests.fleet.servers import KEY, running
from tvm_ios.costs.log_lines import read_header

SCHEDULE = ("schedule", "two_inputs", "--json", "--lanes", 1, "-r", 2, "-s", 3)
SCHEDULE_LONGER = ("schedule", "inception_block", "--json", "--lanes", 1, "--measure", "full")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TVM_IOS_CACHE", str(tmp_path))
    return tmp_path


def records(cache: Path) -> list[dict[str, object]]:
    (log,) = (cache / "logs").glob("*.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    return [line for line in lines if "key" in line]


def measuring(cache: Path) -> list[str]:
    """The machines of the measurements; a concatenation has no launches, which nobody measures."""
    timed = [line for line in records(cache) if line["samples"] != [1e-9]]
    return [str(line["machine"]) for line in timed]


def test_a_fleet_measures_what_this_machine_would(own_cache: Path) -> None:
    with running(1) as processes:
        (server,) = processes.servers
        result = tvm_ios(*SCHEDULE, "--measure", "full", *processes.options).json
    assert result["latency_ms"] > 0
    assert result["search"]["fleet"] == {"machines": 1, "left_out": [], "lost": []}
    measured = records(own_cache)
    assert set(measuring(own_cache)) == {server}
    # The machine is of this one's kind, so its log is this one's: all that a search here asks for.
    (log,) = (own_cache / "logs").glob("*.jsonl")
    assert "1 lanes" in read_header(log).device
    here = tvm_ios(*SCHEDULE, "--cost", log).json
    assert [stage["groups"] for stage in here["stages"]] == [
        stage["groups"] for stage in result["stages"]
    ]
    assert here["latency_ms"] == pytest.approx(result["latency_ms"])
    before = {line["key"] for line in measured}
    again = tvm_ios(*SCHEDULE, "--cost", "measured", "--measure", "full").json
    assert len(again["stages"]) > 0
    assert {line["key"] for line in records(own_cache)} == before


@pytest.mark.slow
def test_a_server_that_is_killed_costs_no_result(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Servers differ while other tests run beside this one.
    monkeypatch.setattr(opening, "differing", lambda *_: {})
    with running(3) as processes:
        killed: list[str] = []

        def kill_the_first_that_measured() -> None:
            while not killed:
                time.sleep(0.01)
                if (own_cache / "logs").exists() and (servers := measuring(own_cache)):
                    processes.signal(servers[0], signal.SIGKILL)
                    killed.append(servers[0])

        threading.Thread(target=kill_the_first_that_measured, daemon=True).start()
        outcome = tvm_ios(*SCHEDULE_LONGER, *processes.options)
        servers = set(processes.servers)
    assert outcome.json["latency_ms"] > 0
    fleet = outcome.json["search"]["fleet"]
    assert fleet["machines"] == 3
    assert [gone["machine"] for gone in fleet["lost"]] == killed
    assert f"{killed[0]} was lost" in outcome.stderr
    assert set(measuring(own_cache)) == servers


def test_what_cannot_be_a_fleet_is_refused() -> None:
    tvm_ios(*SCHEDULE, "--tracker", "127.0.0.1:1", "--key", KEY).refuses("127.0.0.1:1", "tracker")
    tvm_ios(*SCHEDULE, "--tracker", "nowhere", "--key", KEY).refuses("nowhere", "HOST:PORT")
    assert tvm_ios(*SCHEDULE, "--tracker", "127.0.0.1:1").code == 2
    assert tvm_ios(*SCHEDULE, "--devices", 2).code == 2
