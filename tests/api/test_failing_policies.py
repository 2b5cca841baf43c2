"""A policy that fails is a line among the others, which are searched, built and kept."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest

from relay_passes import SearchOptions
from runtime_ext.execution.executable import load
from runtime_ext.verification.onnx_outputs import runtime_outputs
from tests.brief import shorten
from tests.onnx_sketch import Sketch
from tests.random_dags import graph_of
from tests.refusals import refused, require_names
from tvm_ios.api import Options, optimize
from tvm_ios.api.candidates import find_schedules
from tvm_ios.costs.named import costs_named
from tvm_ios.errors import PolicyError, SearchError, UserError
from tvm_ios.policies.policy import Found, Limits, Policy, Problem, Request
from tvm_ios.policies.registry import OURS
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.search import Search

#: What becomes of a policy, and what is said of it.
FAULTS: dict[str, tuple[Callable[[Request], Found], tuple[object, ...]]] = {
    "unexpected": (lambda _: Found({}[116, 30]), ("broken", "KeyError", "(116, 30)", "-vv")),
    "stated": (lambda _: _stated(), ("nothing here is wide enough",)),
}


def _stated() -> Found:
    raise UserError("nothing here is wide enough")


def unbuildable(request: Request) -> Found:
    """A stage whose merge no kernel can do."""
    units = request.problem.units
    groups = tuple((unit,) for unit in range(2))
    rest = (Stage(Strategy.CONCURRENT, ((unit,),)) for unit in range(2, len(units)))
    return Found(Schedule(units.fingerprint, (Stage(Strategy.MERGE, groups), *rest), ""))


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Adds a policy named ``broken``, and gives the list of the times it was asked."""

    def adding(find: Callable[[Request], Found], **how: Any) -> list[str]:
        asked: list[str] = []

        def noted(request: Request) -> Found:
            asked.append(request.policy)
            return find(request)

        module: Any = ModuleType("tvm_ios.policies.broken")
        module.BROKEN = Policy("broken", "fails", noted, **how)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(OURS, "broken", "broken:BROKEN")
        return asked

    return adding


@pytest.fixture
def described() -> Search:
    problem = Problem.of(graph_of((0, 1, 1), ["relu"] * 3), 40)
    return Search(problem, costs_named("v100"), Limits())


@pytest.mark.parametrize("fault", FAULTS)
def test_others_are_found_beside_it(
    add: Callable[..., list[str]], described: Search, fault: str
) -> None:
    find, names = FAULTS[fault]
    asked = add(find)
    found, failed = find_schedules(
        None,  # pyright: ignore[reportArgumentType]  (nothing is built)
        ("sequential", "broken", "greedy"),
        described,
        None,
    )
    assert list(found) == ["sequential", "greedy"]
    require_names(failed["broken"], *names)
    # Who asks again need not wait again.
    with refused(PolicyError if fault == "unexpected" else UserError, *names):
        described.find("broken")
    assert asked == ["broken"]


def test_what_is_used_wrongly_is_said_before_anything_is_searched(
    add: Callable[..., list[str]], described: Search
) -> None:
    asked = add(lambda request: request.found("sequential"))
    with refused(SearchError, "graphturbo", "v100"):
        find_schedules(
            None,  # pyright: ignore[reportArgumentType]  (nothing is built)
            ("sequential", "broken", "graphturbo"),
            described,
            None,
        )
    assert not asked


@pytest.fixture
def branches(tmp_path: Path) -> Path:
    """A model of a few units."""
    sketch = Sketch(1, 4, 8, 8)
    a, b = (sketch.op("Softmax", sketch.conv("x", 4, 4), axis=axis) for axis in (1, 2))
    path = tmp_path / "model.onnx"
    onnx.save(sketch.model(sketch.op("Add", a, b)), path)
    return path


@pytest.mark.parametrize("find", [FAULTS["unexpected"][0], unbuildable])
def test_optimize_saves_what_others_found(
    add: Callable[..., list[str]],
    find: Callable[[Request], Found],
    branches: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shorten(monkeypatch.setattr)
    add(find)
    done = optimize(
        branches,
        tmp_path / "out",
        Options(
            search=SearchOptions(lanes=1, cache=tmp_path / "cache"),
            policies=("broken",),
            beside_tvm=False,
            fallback=(),
        ),
    )
    assert done.kept == "sequential"
    assert load(done.executable).notes["kept"] == "sequential"
    assert done.outcomes["broken"]


def test_an_interrupted_search_leaves_the_sequential_program(
    add: Callable[..., list[str]],
    branches: Path,
    tmp_path: Path,
) -> None:
    def interrupted(_: Request) -> Found:
        # As by Ctrl-C, which no part of the work may take for an error of its own.
        raise KeyboardInterrupt

    add(interrupted)
    search = SearchOptions(lanes=1, cache=tmp_path / "cache")
    with pytest.raises(KeyboardInterrupt):
        optimize(branches, tmp_path / "out", Options(search=search, policies=("broken",)))
    saved = load(tmp_path / "out")
    assert saved.notes["kept"] == "sequential"
    session = saved.session()
    inputs = session.random_inputs()
    session.run(**inputs)
    expected, reference = runtime_outputs(onnx.load(branches), [inputs])
    assert saved.notes["reference"] == reference
    np.testing.assert_allclose(session.get_output(0), expected[0][0], rtol=1e-4, atol=1e-6)


def test_so_does_what_is_not_measured(
    add: Callable[..., list[str]], branches: Path, tmp_path: Path
) -> None:
    add(FAULTS["unexpected"][0])
    compiled = optimize(
        branches,
        tmp_path / "out",
        Options(
            search=SearchOptions(lanes=1, cache=tmp_path / "cache"),
            cost="v100",
            policies=("sequential", "broken"),
        ),
    )
    assert compiled.kept == "sequential"
    assert "KeyError" in compiled.outcomes["broken"]
