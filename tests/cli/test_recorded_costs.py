"""Schedules from measurements that were taken before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import tvm_ios
from tvm_ios.costs.log_lines import read_header

MODEL = ("schedule", "two_inputs", "--json", "--lanes", 1, "-r", 2, "-s", 3)


@pytest.fixture(scope="module")
def log(cache: Path) -> Path:
    """The log that a measured search leaves."""
    measured = tvm_ios(*MODEL, "--cost", "measured", "--max-measurements", 5).json
    assert measured["latency_ms"] > 0
    (path,) = (p for p in cache.glob("logs/*.jsonl") if "1 lanes" in read_header(p).device)
    return path


def test_a_log_answers_what_was_measured(log: Path) -> None:
    measured = tvm_ios(*MODEL, "--cost", "measured", "--max-measurements", 0).json
    recorded = tvm_ios(*MODEL, "--cost", log).json
    # A log may hold more stages than the few that a measured search with no budget looks at.
    assert recorded["latency_ms"] <= measured["latency_ms"] * (1 + 1e-9)
    assert recorded["search"]["stages_measured"] == 0


@pytest.mark.parametrize("policy", ["sequential", "greedy"])
def test_baselines_have_measured_latencies(log: Path, policy: str) -> None:
    result = tvm_ios(*MODEL, "--cost", "measured", "--policy", policy).json
    assert result["latency_ms"] > 0
    assert all(stage["latency_ms"] > 0 for stage in result["stages"])


def test_a_log_for_other_lanes_is_refused(log: Path) -> None:
    outcome = tvm_ios("schedule", "two_inputs", "--lanes", 2, "--cost", log)
    outcome.refuses(log, "device")


def test_a_missing_log_is_named(tmp_path: Path) -> None:
    outcome = tvm_ios(*MODEL, "--cost", tmp_path / "none.jsonl")
    outcome.refuses(tmp_path / "none.jsonl")
