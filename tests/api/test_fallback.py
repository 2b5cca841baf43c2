"""Another runtime's build is kept where it is faster beyond doubt, and only there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from relay_passes import SearchOptions
from runtime_ext.execution.executable import Executable, load
from runtime_ext.execution.foreign_build import ForeignBuild
from runtime_ext.peers import side_by_side
from tests.brief import shorten
from tests.onnx_sketch import Sketch, relative_error, run_on
from tvm_ios.api import Options, optimize, tvm_build
from tvm_ios.api.result import Result
from tvm_ios.cli import app
from tvm_ios.contest import contest
from tvm_ios.contest.verdict import ratio_of


def time_as(monkeypatch: pytest.MonkeyPatch, runtime: str, *processes: float) -> None:
    """Let a runtime take so many seconds in one fresh process after another, and all others one."""
    seconds = iter((*processes, *([processes[-1]] * 9)))

    def run(runners: side_by_side.SideBySide) -> side_by_side.Outcome:
        samples = {name: [1.0] * 8 for name in (*runners.executables, *runners.peers)}
        if runtime in samples:
            samples[runtime] = [next(seconds)] * 8
        return side_by_side.Outcome(samples, {}, "", {}, {})

    monkeypatch.setattr(side_by_side, "run_side_by_side", run)
    # By what this process measures nothing is left out.
    alike = ratio_of({"a": [1.0] * 8, "b": [1.0] * 8}, "a", "b")
    monkeypatch.setattr(contest, "ratio_of", lambda *_: alike)


def network() -> onnx.ModelProto:
    sketch = Sketch(1, 3, 8, 8)
    return sketch.model(sketch.op("Sigmoid", sketch.conv("x", 3, 4)))


def optimized(folder: Path, model: onnx.ModelProto | None = None, **options: Any) -> Result:
    onnx.save(model or network(), folder / "model.onnx")
    how = Options(search=SearchOptions(lanes=1), policies=(), **options)
    return optimize(folder / "model.onnx", folder / "out", how)


def test_tvms_own_build_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch.setattr)
    time_as(monkeypatch, "tvm", 0.5)
    done = optimized(tmp_path)
    assert done.kept == "sequential"
    assert done.faster is not None
    assert (done.faster.runtime, done.faster.ratio.median) == ("tvm", 2.0)
    build = load(tmp_path / "out")
    assert isinstance(build, ForeignBuild)
    session = build.session()
    feeds = session.random_inputs(0)
    session.run(**feeds)
    assert relative_error([session.get_output()], run_on(network(), feeds)) <= 1e-4
    for command, key in (("run", "runtime"), ("explain", "policy")):
        result = CliRunner().invoke(app, [command, str(tmp_path / "out")])
        assert "TVM's own build" in result.output
        result = CliRunner().invoke(app, [command, str(tmp_path / "out"), "--json"])
        assert json.loads(result.stdout)[key] == "tvm"


@pytest.mark.parametrize("factors", [(2.0,), (0.5, 0.5, 2.0, 0.5)])
def test_what_is_slower_once_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factors: tuple[float, ...]
) -> None:
    shorten(monkeypatch.setattr)
    time_as(monkeypatch, "tvm", *factors)
    assert optimized(tmp_path).faster is None
    assert isinstance(load(tmp_path / "out"), Executable)


def test_onnx_runtime_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    shorten(monkeypatch.setattr)
    time_as(monkeypatch, "onnxruntime", 0.25)
    done = optimized(tmp_path, fallback=("tvm", "onnxruntime"))
    assert done.faster is not None
    assert done.faster.runtime == "onnxruntime"
    assert (tmp_path / "out" / "model.onnx").exists()
    session = load(tmp_path / "out").session()
    session.run(**session.random_inputs(0))


def of_nan() -> onnx.ModelProto:
    """TVM's own build drops NaN."""
    sketch = Sketch(1, 3, 8, 8)
    return sketch.model(sketch.op("Relu", "x"))


def of_nan_past_a_convolution() -> onnx.ModelProto:
    sketch = Sketch(1, 3, 8, 8)
    return sketch.model(sketch.op("Relu", sketch.conv("x", 3, 4)))


def of_infinities() -> onnx.ModelProto:
    """ONNX Runtime's pooling begins with the lowest number."""
    sketch = Sketch(1, 3, 8, 8)
    nothing = sketch.const(np.full((1, 3, 8, 8), -np.inf))
    masked = sketch.op("Where", sketch.op("Greater", "x", sketch.const(9.0)), "x", nothing)
    pads = [1, 1, 1, 1]
    return sketch.model(sketch.op("MaxPool", masked, kernel_shape=[3, 3], pads=pads))


@pytest.mark.parametrize(
    ("make", "runtime", "title"),
    [
        (of_nan, "tvm", "TVM's own build"),
        (of_nan_past_a_convolution, "tvm", "TVM's own build"),
        (of_infinities, "onnxruntime", "the model for ONNX Runtime"),
    ],
)
def test_a_build_that_is_wrong_at_edges_is_not_kept(
    make: Callable[[], onnx.ModelProto],
    runtime: str,
    title: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shorten(monkeypatch.setattr)
    # A second run of TVM's build is not waited for.
    monkeypatch.setattr(tvm_build, "_PATIENCE", 0.0)
    time_as(monkeypatch, runtime, 0.5)
    done = optimized(tmp_path, make(), fallback=(runtime,))
    assert done.faster is None
    assert done.notes[-1].startswith(f"{title} was faster and is not kept: it differs from")


def test_within_a_memory_budget_or_where_nobody_asks_it_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch.setattr)
    time_as(monkeypatch, "tvm", 0.5)
    assert optimized(tmp_path, memory_budget=1 << 30).faster is None
    assert optimized(tmp_path, fallback=()).faster is None
