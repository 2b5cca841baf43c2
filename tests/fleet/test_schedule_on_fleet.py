"""``tvm-ios schedule`` on servers, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import tvm_ios
from tests.fleet.servers import KEY, running
from tvm_ios.costs.log import read_header

SCHEDULE = ("schedule", "two_inputs", "--json", "--lanes", 1, "-r", 2, "-s", 3)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TVM_IOS_CACHE", str(tmp_path))
    return tmp_path


def records(cache: Path) -> list[dict[str, object]]:
    (log,) = (cache / "logs").glob("*.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    return [line for line in lines if "key" in line]


def test_a_fleet_measures_what_this_machine_would(own_cache: Path) -> None:
    with running(1) as processes:
        (server,) = processes.servers
        result = tvm_ios(*SCHEDULE, "--measure", "full", *processes.options).json
    assert result["latency_ms"] > 0
    assert result["search"]["fleet"] == {"machines": 1, "left_out": [], "lost": []}
    measured = records(own_cache)
    # Nobody measures what has no launches, such as a concatenation in place.
    timed = [line for line in measured if line["samples"] != [1e-9]]
    assert {line["machine"] for line in timed} == {server}
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


def test_what_cannot_be_a_fleet_is_refused() -> None:
    tvm_ios(*SCHEDULE, "--tracker", "127.0.0.1:1", "--key", KEY).refuses("127.0.0.1:1", "tracker")
    tvm_ios(*SCHEDULE, "--tracker", "nowhere", "--key", KEY).refuses("nowhere", "HOST:PORT")
    assert tvm_ios(*SCHEDULE, "--tracker", "127.0.0.1:1").code == 2
    assert tvm_ios(*SCHEDULE, "--devices", 2).code == 2
