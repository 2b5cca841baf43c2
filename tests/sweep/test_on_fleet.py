"""A sweep on a server of a tracker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import tvm_ios
from tests.fleet.servers import KEY, running
from tests.onnx_sketch import save_small
from tests.sweep.sweep_package import sweep_file

pytestmark = pytest.mark.slow

DEVICE = f"fleet:{KEY}"


def test_measured_on_a_fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TVM_IOS_CACHE", str(tmp_path / "cache"))
    save_small(tmp_path)
    file = sweep_file(
        tmp_path,
        models=["small.onnx"],
        devices=["v100", DEVICE],
        policies=["sequential", "ios-both"],
        crossings=["devices"],
        max_measurements=5,
        lanes=1,
    )
    command = ("sweep", file, "-o", tmp_path / "out", "--json", "--workers", 2)
    with running(1) as processes:
        (server,) = processes.servers
        tracker = ("--tracker", processes.tracker)
        result = tvm_ios(*command, *tracker).json
        rows = [row for row in result["rows"] if row["device"] == DEVICE]
        # Two searches, and what was searched for v100.
        assert len(rows) == 2 + 1
        assert all(row["latency_ms"] > 0 and row["to_sequential"] > 0 for row in rows)
        assert all(row["program_ms"] is None for row in rows)
        assert tvm_ios(*command, *tracker).json["resumed"] == result["tasks"]
    (log,) = (tmp_path / "cache" / "logs").glob("*.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    # Nobody measures what has no launches.
    timed = [line for line in lines if "key" in line and line["samples"] != [1e-9]]
    assert {line["machine"] for line in timed} == {server}
