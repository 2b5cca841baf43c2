"""Schedules over ranges: the boxes that they have, and that programs with them are right."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.execution.executable import load
from tests.dynamic_models.dynamic import unet
from tests.refusals import refused
from tvm_ios.api import Options, optimize_range
from tvm_ios.api.range_schedules import cells_of, joined, most_useful
from tvm_ios.contest.outputs import output_errors
from tvm_ios.contest.pairs import PairedRatio
from tvm_ios.errors import UserError
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import sequential_stages
from tvm_ios.search import Search
from tvm_ios.shapes.extent import Symbol
from tvm_ios.shapes.ranges import parse_ranges

ranges = st.tuples(st.integers(1, 40), st.integers(0, 60)).map(lambda r: (r[0], r[0] + r[1]))


def _shapes(box: Mapping[str, tuple[int, int]]) -> set[tuple[int, ...]]:
    return set(product(*(range(least, most + 1) for least, most in box.values())))


@given(st.lists(ranges, min_size=1, max_size=2))
def test_cells_cover_a_range_once_and_have_their_points(ends: list[tuple[int, int]]) -> None:
    symbols = [Symbol(f"s{i}", least, most, most) for i, (least, most) in enumerate(ends)]
    cells = cells_of(symbols)
    shapes = [shape for cell in cells for shape in _shapes(cell.box)]
    assert len(shapes) == len(set(shapes))
    assert set(shapes) == _shapes({s.name: (s.least, s.most) for s in symbols})
    for cell in cells:
        assert tuple(cell.point.values()) in _shapes(cell.box)


def test_many_symbols_have_three_cells_along_the_diagonal() -> None:
    symbols = [Symbol(name, 1, most, 1) for name, most in (("a", 1), ("b", 9), ("c", 100))]
    points = [tuple(cell.point.values()) for cell in cells_of(symbols)]
    assert points == [(1, 1, 1), (1, 3, 10), (1, 9, 100)]


@given(st.lists(ranges, min_size=1, max_size=2), st.data())
def test_joined_boxes_have_the_same_shapes(ends: list[tuple[int, int]], data: Any) -> None:
    symbols = [Symbol(f"s{i}", least, most, most) for i, (least, most) in enumerate(ends)]
    boxes = [cell.box for cell in cells_of(symbols)]
    chosen = data.draw(st.lists(st.sampled_from(boxes), unique_by=lambda box: tuple(box.values())))
    fewer = joined(chosen)
    assert sum(len(_shapes(box)) for box in fewer) == sum(len(_shapes(box)) for box in chosen)
    assert {s for box in fewer for s in _shapes(box)} == {s for b in chosen for s in _shapes(b)}
    if len(chosen) == len(boxes):
        assert len(fewer) == 1


def _ratio(median: float) -> PairedRatio:
    return PairedRatio(median, median, median, 9)


def test_the_programs_that_gain_the_most_together_are_taken() -> None:
    faster = [
        {0: _ratio(0.9), 1: _ratio(0.5)},
        {0: _ratio(0.9), 2: _ratio(0.89)},
        {0: _ratio(0.9)},
        {3: _ratio(0.999)},
    ]
    assert most_useful(faster) == [1, 0, 2]
    assert most_useful([{}, {}]) == []


def _timed(slower: float) -> Any:
    """A contest in which all programs but the first take a part of its time."""

    def run_in_turn(runners: Mapping[str, Any], rules: Any) -> dict[str, list[float]]:
        for runner in runners.values():
            runner()
        return {n: [1.0 + 0.1 * int(n) if n else slower] * 9 for n in runners}

    return run_in_turn


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "unet.onnx"
    onnx.save(unet(), path)
    return path


def _options(**others: Any) -> Options:
    from relay_passes.search_options import SearchOptions

    return Options(search=SearchOptions(lanes=2), **others)


RANGES = parse_ranges(["image:1,3,16..64:8,16..64:8"])


def test_a_program_with_schedules_computes_every_shape(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_one_lane(search: Search, policies: Sequence[str]) -> dict[str, Schedule]:
        graph = search.problem.units
        schedule = search.problem.schedule(sequential_stages(graph))
        latencies = {unit: (1.0, 2.0) for unit in range(len(graph))}
        return {policies[0]: replace(schedule, unit_latencies=latencies)}

    monkeypatch.setattr("tvm_ios.api.range_schedules.run_in_turn", _timed(2.0))
    monkeypatch.setattr("tvm_ios.api.range_schedules._schedules_at", on_one_lane)
    options = _options(policies=("sequential", "rammer"))
    result = optimize_range(str(model), RANGES, tmp_path / "out", options)
    (kept,) = result.schedules
    assert len(kept.boxes) == 1
    assert len(kept.points) == 9
    executable: Any = load(tmp_path / "out")
    (alternative,) = executable.program.alternatives
    assert alternative.lanes[1] == ()
    assert executable.notes["schedules"][0]["policy"] == kept.policy
    there = executable.at_shapes({"image": (1, 3, 24, 64)})
    assert there.schedule == json.loads(json.dumps(kept.schedule))
    assert there.program.lanes[1] == ()
    reference: Any = onnxruntime.InferenceSession(model)
    for executor in ("native", "poisoning"):
        session = executable.session(executor)
        for height, width in ((16, 16), (24, 64), (64, 40), (16, 16)):
            image = np.random.default_rng(height).standard_normal((1, 3, height, width))
            inputs = {"image": image.astype(np.float32)}
            session.run(**inputs)
            outputs = [session.get_output(0)]
            assert output_errors(outputs, reference.run(None, inputs))[1] < 1e-5
        session.close()


def test_no_schedule_is_kept_where_none_is_faster(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tvm_ios.api.range_schedules.run_in_turn", _timed(1.0))
    result = optimize_range(str(model), RANGES, None, _options(policies=("sequential",)))
    assert result.schedules == ()


def test_nothing_is_searched_after_the_time_limit(model: Path) -> None:
    from relay_passes.search_options import SearchOptions
    from tvm_ios.ios.lazy import Budget
    from tvm_ios.policies.policy import Limits

    limits = Limits(budget=Budget(time_limit=1e-3))
    options = Options(search=SearchOptions(lanes=2, limits=limits))
    assert optimize_range(str(model), RANGES, None, options).schedules == ()


def test_policies_of_other_programs_are_refused(model: Path) -> None:
    with refused(UserError, "graphturbo", "ios-parallel"):
        optimize_range(str(model), RANGES, None, _options(policies=("graphturbo",)))
