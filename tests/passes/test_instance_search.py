"""The policies that run instances, measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from relax_sketch import LANES, inputs_of, module_of, pyramid, run

from relay_passes import instance_search
from relay_passes.measured import MeasuredSearch, MeasuringOptions
from relay_passes.prepare import apply_schedule, prepare
from runtime_ext.build import build
from tvm_ios.schedule import Schedule
from tvm_ios.search.endings import Pruning
from tvm_ios.search.lazy import Budget


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fewest rounds."""
    monkeypatch.setattr(instance_search, "_SECONDS", 0.0)


def searching(module: Any, **limits: Any) -> MeasuredSearch:
    options = MeasuringOptions(
        lanes=LANES, pruning=Pruning(1, 2), budget=Budget(max_measurements=1, **limits)
    )
    return MeasuredSearch(prepare(module), options)


def require_equal(search: MeasuredSearch, made: Schedule, module: Any) -> None:
    made.validate(search.graph)
    model = build(apply_schedule(search.prepared, made), lanes=LANES)
    session = model.session(executor="poisoning")
    names = (port.name for port in model.inputs)
    session.run(**dict(zip(names, inputs_of(module), strict=True)))
    for place, wanted in enumerate(run(module)):
        np.testing.assert_allclose(session.get_output(place), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("quick")
def test_policies_of_a_batch(tmp_path: Path) -> None:
    module = module_of([(4, 3, 8, 8)], pyramid(4))
    search = searching(module)
    made, took = search.schedule("graphturbo")
    assert made.policy == "graphturbo"
    # All of it fits any cache: each lane runs its part of the batch.
    assert made.instances is not None
    assert [s.factor for s in made.instances.subgraphs] == [LANES]
    assert took is not None
    assert took.candidates >= 1
    require_equal(search, made, module)
    mixed, _ = search.schedule("holistic")
    assert mixed.policy == "holistic"
    require_equal(search, mixed, module)


@pytest.mark.usefixtures("quick")
def test_of_one_image_at_most_rows_are_split() -> None:
    plan = searching(module_of([(1, 3, 8, 8)], pyramid(1))).schedule("graphturbo")[0].instances
    assert plan is None or {axis for s in plan.subgraphs for axis in s.axes} == {2}


@pytest.mark.usefixtures("quick")
def test_a_time_limit_ends_the_search() -> None:
    search = searching(module_of([(4, 3, 8, 8)], pyramid(4)), time_limit=0.0)
    made, took = search.schedule("graphturbo")
    assert made.instances is None
    assert took is not None
    assert not took.complete
