"""One clock for all of the work: once it has run out, what can be left out is, and told."""

from __future__ import annotations

import math
from pathlib import Path

import onnx
import pytest

from relay_passes import SearchOptions
from runtime_ext.execution.executable import load
from tests.onnx_sketch import Sketch
from tests.random_dags import graph_of
from tests.refusals import refused, require_names
from tvm_ios.api import Options, optimize
from tvm_ios.api.tvm_build import TvmBuild
from tvm_ios.clock import Clock, OutOfTimeError
from tvm_ios.costs.named import costs_named
from tvm_ios.ios.lazy import Budget
from tvm_ios.policies.policy import Limits, Problem
from tvm_ios.search import Search


def test_a_clock_says_what_is_left() -> None:
    assert Clock().left == math.inf
    assert Clock().share(0.5) == math.inf
    Clock(1000).require_left("built")
    clock = Clock(0.0)
    assert clock.left <= 0
    with refused(OutOfTimeError, "not built", "0 s"):
        clock.require_left("built")
    clock.lap("first")
    clock.lap("second")
    assert list(clock.seconds) == ["first", "second"]


def test_without_time_only_what_needs_no_costs_is_searched() -> None:
    search = Search(Problem.of(graph_of((0, 1, 1)), 40), costs_named("v100"), Limits())
    search.until = 0.0
    assert search.find("sequential").schedule.stages
    with refused(OutOfTimeError, "ios-both", "time limit"):
        search.find("ios-both")
    assert search.out_of_time


def test_without_time_the_sequential_program_is_verified_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sketch = Sketch(1, 4, 8, 8)
    a, b = (sketch.op("Softmax", sketch.conv("x", 4, 4), axis=axis) for axis in (1, 2))
    onnx.save(sketch.model(sketch.op("Add", a, b)), tmp_path / "model.onnx")
    monkeypatch.delattr(TvmBuild, "make")
    done = optimize(
        tmp_path / "model.onnx",
        tmp_path / "out",
        Options(
            search=SearchOptions(
                lanes=2, cache=tmp_path / "cache", limits=Limits(budget=Budget(time_limit=0.0))
            )
        ),
    )
    assert done.kept == load(done.executable).notes["kept"] == "sequential"
    assert done.reference is not None
    assert done.search.stages_measured == 0
    assert {"greedy", "ios-both", "graphturbo"} <= done.outcomes.keys()
    for policy in done.outcomes.keys() - {"sequential"}:
        require_names(done.outcomes[policy], "time limit")
    assert {"import", "search", "build", "verify", "measure", "save"} <= done.seconds.keys()
