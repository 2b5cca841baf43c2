"""``explain`` of a real executable."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runtime_ext.execution.executable import load
from runtime_ext.explain import Explanation, explain
from tests.cli.command_line import tvm_ios
from tests.small_executable import save_small_executable
from tvm_ios.explain.bounds import Bound


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small_executable(tmp_path_factory.mktemp("explain") / "small")


def test_json(executable: Path) -> None:
    result = tvm_ios("explain", executable, "--repeat", 4, "--json").json
    assert list(result) == [
        *("policy", "measured_ms", "lanes", "memory", "latency_ms", "disturbance"),
        *("preemptions", "held_up_ms", "peak", "tail", "total", "blocks", "hot"),
    ]
    assert result["measured_ms"] == {"sequential": 2.0}
    assert (result["policy"], result["lanes"]) == ("ios-merge", 2)
    assert result["disturbance"] >= 1
    assert result["preemptions"] >= 0
    assert result["held_up_ms"] >= 0
    assert min(result["peak"].values()) > 0
    total = result["total"]
    # Two merged 3x3 convolutions of 8 to 16 channels, and one of 16 to 4; a multiply-add is two.
    multiply_adds = 144 * 9 * (2 * 8 * 16 + 16 * 4)
    assert 2 * multiply_adds < total["flops"] < 2.1 * multiply_adds
    assert total["bytes"] > 144 * 4 * (8 + 4)
    assert total["launches"] == sum(block["launches"] for block in result["blocks"])
    assert total["flops"] == sum(block["flops"] for block in result["blocks"])
    names = [name for block in result["blocks"] for name in block["units"]]
    assert sorted(names) == sorted(total["units"])
    assert sum("conv2d" in name for name in names) == 2
    for region in (total, *result["blocks"]):
        bounds = region["bounds_ms"]
        assert {"critical_path", "work_over_lanes"} <= set(bounds)
        assert set(bounds) <= {bound.value.replace(" ", "_") for bound in Bound}
        assert region["bound"] in bounds
        assert 0 < max(bounds.values()) <= region["ms"]
        assert region["ratio"] == pytest.approx(region["ms"] / max(bounds.values()))
        assert region["advice"]
    assert 1 <= len(result["hot"]) <= 5
    for row in result["hot"]:
        assert row["ms"] > 0
        assert row["gflops"] >= 0
        assert row["gbps"] > 0
        assert len(row["kernels"]) >= 1


@pytest.mark.parametrize("residual", [False, True])
def test_forms_are_named_and_compute_what_they_multiply(tmp_path: Path, residual: bool) -> None:
    (direct, _), (less, kind) = (
        _flops_and_kind(save_small_executable(tmp_path / f"m{form}", form, residual=residual))
        for form in ("", "winograd-4")
    )
    assert "winograd-4" in kind
    assert less == pytest.approx(direct / 4)


def _flops_and_kind(path: Path) -> tuple[float, str]:
    """Of the last unit."""
    explained = explain(path, repeat=2)
    assert isinstance(explained, Explanation)
    assert explained.flops is not None
    return explained.flops[-1], explained.kinds[-1]


def test_the_table_names_blocks_bounds_and_kernels(executable: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "timeline.svg"
    outcome = tvm_ios("explain", executable, "--repeat", 2, "--plot", picture)
    assert outcome.code == 0, outcome.stderr
    for word in ("ios-merge", "3 units on 2 lanes", "critical", "seen/bound", "GFLOP/s", "conv2d"):
        assert word in outcome.stdout
    drawn = picture.read_text()
    assert drawn.startswith("<?xml")
    # Matplotlib writes the text of each label as a comment.
    for word in ("small: ios-merge on this machine", "warm runs", "lane 1", "convolution"):
        assert word in drawn


def test_an_executable_that_does_not_say_its_flops(executable: Path, tmp_path: Path) -> None:
    whole = load(executable)
    schedule = {key: value for key, value in whole.schedule.items() if key != "flops"}
    replace(whole, schedule=schedule, notes={}).save(tmp_path / "old")
    result = tvm_ios("explain", tmp_path / "old", "--repeat", 2, "--json").json
    assert result["total"]["flops"] is None
    assert result["measured_ms"] == {}
    assert "arithmetic" not in result["total"]["bounds_ms"]
    assert all(row["gflops"] is None for row in result["hot"])
    assert tvm_ios("explain", tmp_path / "old", "--repeat", 1).code == 0


@pytest.mark.parametrize("flops", [[1], ["many"] * 9, 7, {"a": 1}])
def test_an_executable_that_misstates_its_flops(
    flops: object, executable: Path, tmp_path: Path
) -> None:
    whole = load(executable)
    replace(whole, schedule={**whole.schedule, "flops": flops}).save(tmp_path / "odd")
    tvm_ios("explain", tmp_path / "odd", "--repeat", 1).refuses("units")


def test_what_cannot_be_explained(executable: Path, tmp_path: Path) -> None:
    tvm_ios("explain", tmp_path / "nothing").refuses(tmp_path / "nothing")
    outcome = tvm_ios("explain", executable, "--plot", "picture.jpeg2000")
    outcome.refuses(".svg or .png")
    assert tvm_ios("explain", executable, "--repeat", 0).code == 2
