"""``tvm-ios tune --target cuda``, on a GPU whose times are made up and where there is none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runtime_ext.cuda import measure
from runtime_ext.cuda.nvidia import driver
from tests.cli.command_line import tvm_ios
from tests.onnx_sketch import Sketch
from tvm_ios.program.program import Program

pytest.importorskip("xgboost")


def drawn(program: Program, function: Any, **_: Any) -> list[float]:
    """As if few blocks were too few and many too many."""
    blocks = sum(function(symbol).grid[0] for symbol in program.kernels)
    return [1e-6 * (1 + abs(blocks - 9))]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two convolutions that can be merged."""
    sketch = Sketch(1, 8, 6, 7)
    outputs = sketch.conv("x", 8, 16), sketch.conv("x", 8, 24, kernel=1)
    path = tmp_path / "small.onnx"
    path.write_bytes(sketch.model(*outputs).SerializeToString())
    return path


@pytest.mark.slow
def test_the_command_on_a_gpu(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimpleNamespace(name="Drawn", compute_capability=(9, 0))
    for module in (driver, measure):
        monkeypatch.setattr(module, "open_device", lambda *_: gpu)
    monkeypatch.setattr(measure, "time_program", drawn)
    options = ["--target", "cuda", "--log", tmp_path / "log", "--trials", 3]
    first = tvm_ios("tune", model, *options, "--json").json
    assert {row["trials"] for row in first["kernels"]} == {3}
    assert first["latency_ms"]["tuned"] <= first["latency_ms"]["default"]
    again = tvm_ios("tune", model, *options, "--json").json
    assert [row["new_trials"] for row in again["kernels"]] == [0] * len(first["kernels"])
    gpu.compute_capability = 8, 0
    other = tvm_ios("tune", model, "--arch", "sm_80", *options)
    other.refuses("sm_90")


def test_without_a_gpu_the_command_is_refused(model: Path, tmp_path: Path) -> None:
    said = tvm_ios("tune", model, "--target", "cuda", "--arch", "sm_70", "--log", tmp_path / "l")
    assert (said.code, (tmp_path / "l").exists()) == (1, False)
    said.refuses("sm_70")
