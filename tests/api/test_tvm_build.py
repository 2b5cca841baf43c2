"""TVM's own build is made once, when it is asked for, and a slow one runs once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from relay_passes.search_options import SearchOptions
from runtime_ext.execution import bound_model
from runtime_ext.execution.bound_model import BoundModel
from tvm_ios.api import tvm_build
from tvm_ios.api.tvm_build import TvmBuild
from tvm_ios.progress import silent

SAMPLES = [{"x": np.full(2, value, np.float32)} for value in (1, 2)]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The libraries that were compiled; each doubles its input."""
    paths: list[Path] = []

    def bind_library(path: Path) -> Any:
        assert paths == [path]
        return lambda inputs: BoundModel(lambda: inputs["x"] * 2, lambda result: [result])

    monkeypatch.setattr(bound_model, "bind_library", bind_library)
    return paths


def build(made: list[Path]) -> TvmBuild:
    dialect = SimpleNamespace(compile_tvm_build=lambda _module, _options, path: made.append(path))
    loaded: Any = SimpleNamespace(dialect=dialect, module=None)
    return TvmBuild(loaded, SearchOptions(lanes=2), Path("tvm.so"), silent)


def test_it_is_made_once_and_computes_all_samples(made: list[Path]) -> None:
    own = build(made)
    assert made == []
    own.make()
    outputs = own.outputs(SAMPLES)
    assert [float(array[0]) for (array,) in outputs] == [2, 4]
    assert made == [Path("tvm.so")]


def test_a_slow_one_computes_the_first_sample(
    made: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tvm_build, "_PATIENCE", -1.0)
    ((array,),) = build(made).outputs(SAMPLES)
    assert float(array[0]) == 2
