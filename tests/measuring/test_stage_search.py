"""When a run with measured costs counts as one that came to its end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.random_dags import graph_of
from tvm_ios.costs.log import MeasurementLog
from tvm_ios.costs.log_lines import LogHeader
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.ios.lazy import Budget
from tvm_ios.measuring.measured_costs import measured_costs
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.policies.policy import Limits, Problem
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage
from tvm_ios.search import Search

SIDE_BY_SIDE = graph_of((0, 0, 0, 0b111))


class Timer:
    """Every stage takes a second, which costs no time to find out."""

    def __init__(self, path: Path) -> None:
        self.graph = SIDE_BY_SIDE
        self.lanes = 2
        self.device = SimpleNamespace(name="device")
        self.kernels = SimpleNamespace(fuser=None)
        self.stages_measured = 0
        self.until = math.inf
        self.log = MeasurementLog(path, LogHeader("device", "target", "tvm"))
        self.unit_latencies = {str(unit): (1.0, 0.5) for unit in range(len(self.graph))}

    def compile_units(self, progress: Any) -> None: ...

    def measure_units(self, progress: Any) -> None: ...

    def rkernels(self, unit: int) -> tuple[()]:
        return ()

    def rprogram(self, stage: Stage) -> Any: ...

    def unit_key(self, graph: OpGraph, unit: int) -> str:
        return str(unit)

    def stage_key(self, graph: OpGraph, stage: Stage) -> str:
        return str(stage)

    def stage_latencies(self, stages: Iterable[Stage]) -> Iterator[float]:
        for stage in stages:
            if self.log.wants(str(stage)):
                self.log.append(str(stage), [1.0])
                self.stages_measured += 1
            yield 1.0

    def timed(self, schedule: Schedule) -> Schedule:
        return schedule

    def end_run(self) -> None:
        self.log.end_run()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def run(path: Path, budget: Budget, ended: bool = True) -> tuple[int, bool]:
    """Stages measured, and whether the search was complete."""
    timer = Timer(path)
    problem = Problem(SIDE_BY_SIDE, ((1 << len(SIDE_BY_SIDE)) - 1,))
    costs = measured_costs(cast(StageTimer, timer))
    search = Search(problem, costs, Limits(budget=budget))
    statistics = search.find("ios-parallel").statistics
    assert statistics is not None
    if ended and not search.out_of_time:
        timer.end_run()
    return timer.stages_measured, statistics.complete


def test_what_a_killed_run_measured_is_not_measured_again(path: Path) -> None:
    measured, complete = run(path, Budget(), ended=False)
    assert measured > len(SIDE_BY_SIDE)
    assert complete
    assert run(path, Budget()) == (0, True)
    assert run(path, Budget()) == (measured, True), "the run before came to its end"


def test_a_run_that_ran_out_of_time_is_gone_on_with(path: Path) -> None:
    everything, _ = run(path.with_name("other.jsonl"), Budget())
    assert run(path, Budget(time_limit=0.0)) == (len(SIDE_BY_SIDE), False)
    assert run(path, Budget()) == (everything - len(SIDE_BY_SIDE), True)


def test_so_many_measurements_are_a_whole_run(path: Path) -> None:
    """The next run with this limit could not go on: it would come to the same stages."""
    budget = Budget(max_measurements=len(SIDE_BY_SIDE) + 1)
    assert run(path, budget) == (len(SIDE_BY_SIDE) + 1, False)
    assert run(path, budget) == (len(SIDE_BY_SIDE) + 1, False)
