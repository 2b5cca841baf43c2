"""What serves the most requests a second is kept, and run by the executable as it was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from relay_passes import SearchOptions
from runtime_ext.execution.executable import Executable, load
from runtime_ext.peers.requests_side_by_side import Serving
from tests.brief import shorten
from tests.onnx_sketch import relative_error, run_on
from tvm_ios.api import Options, optimize_throughput
from tvm_ios.api.throughput import IN_TURN, ONE_LANE, SIDE_BY_SIDE, hold_throughput_contest
from tvm_ios.models.load import load_onnx

WAYS = (IN_TURN, SIDE_BY_SIDE, ONE_LANE)


def measured(*processes: dict[str, float]) -> tuple[str, list[Sequence[str]]]:
    """What is kept where ways take these seconds in each process, and what was timed there."""
    asked: list[Sequence[str]] = []

    def serving(names: Sequence[str]) -> Serving:
        seconds = processes[len(asked)]
        asked.append(tuple(names))
        samples = {name: [seconds[name] * (1 + n / 1000) for n in range(8)] for name in names}
        return Serving(samples, samples, 1)

    return hold_throughput_contest(WAYS, serving)[0], asked


def test_the_fastest_is_kept_if_it_is_so_in_each_process() -> None:
    first = {IN_TURN: 1.0, SIDE_BY_SIDE: 0.9, ONE_LANE: 0.8}
    kept, asked = measured(first, *3 * [{IN_TURN: 1.0, ONE_LANE: 0.9}])
    assert kept == ONE_LANE
    assert [sorted(names) for names in asked[1:]] == 3 * [sorted((IN_TURN, ONE_LANE))]
    lucky = {IN_TURN: 1.0, ONE_LANE: 1.1}
    kept, asked = measured(first, {IN_TURN: 1.0, ONE_LANE: 0.9}, lucky)
    assert kept == IN_TURN
    # A single process decides against it.
    assert len(asked) == 3


def test_one_after_another_is_kept_where_nothing_is_faster() -> None:
    kept, asked = measured({IN_TURN: 1.0, SIDE_BY_SIDE: 1.0, ONE_LANE: 1.2})
    assert (kept, len(asked)) == (IN_TURN, 1)


def test_an_interval_around_one_keeps_one_after_another() -> None:
    def serving(names: Sequence[str]) -> Serving:
        few = {IN_TURN: [1.0] * 8, SIDE_BY_SIDE: [0.9] * 5 + [1.1] * 3, ONE_LANE: [2.0] * 8}
        return Serving({n: few[n] for n in names}, few, 1)

    assert hold_throughput_contest(WAYS, serving)[0] == IN_TURN


@pytest.mark.parametrize("lanes", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("cache")
def test_optimize(lanes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shorten(monkeypatch.setattr)
    done = optimize_throughput(
        "inception_block",
        tmp_path / "out",
        Options(search=SearchOptions(lanes=lanes), policies=["sequential"]),
    )
    served = done.served
    assert served is not None
    assert [way.way for way in served.ways] == list(WAYS if lanes == 2 else WAYS[:1])
    assert [(way.lanes, way.workers) for way in served.ways][:1] == [(lanes, 1)]
    assert all((way.lanes, way.workers) == (1, lanes) for way in served.ways[1:])
    assert all(0 < way.p50 <= way.p99 and way.requests_a_second > 0 for way in served.ways)
    assert (served.confirmed is None) == (served.kept == IN_TURN)
    executable = load(done.executable)
    assert isinstance(executable, Executable)
    kept = next(way for way in served.ways if way.way == served.kept)
    assert executable.workers == kept.workers
    assert executable.notes["throughput"]["kept"] == served.kept
    session = executable.session()
    assert session.pool().workers == kept.workers
    requests = [session.random_inputs(seed) for seed in range(3)]
    for request, result in zip(requests, session.run_many(requests), strict=True):
        expected = run_on(load_onnx("inception_block"), request)
        assert relative_error([np.asarray(v) for v in result.values()], expected) <= 1e-4
    session.close()


def test_without_a_note_there_is_a_worker_a_lane(executable_of_two_lanes: Executable) -> None:
    assert executable_of_two_lanes.workers is None
    with_note = replace(executable_of_two_lanes, notes={"throughput": {"workers": 1}})
    for executable, workers in ((executable_of_two_lanes, 2), (with_note, 1)):
        session = executable.session()
        assert session.pool().workers == workers
        session.close()


@pytest.fixture
def executable_of_two_lanes(tmp_path: Path) -> Executable:
    from tests.execution.small_executable import small_executable

    return small_executable(tmp_path)
