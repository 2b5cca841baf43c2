"""Searches on a device that takes several programs at once find what they find on one of one."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from tests.measuring.sleeping_device import SleepingDevice, timer_of
from tests.random_dags import graph_of
from tests.refusals import refused
from tvm_ios.costs.log import MeasurementLog
from tvm_ios.costs.log_lines import LogHeader
from tvm_ios.errors import UserError
from tvm_ios.ios.lazy import Budget
from tvm_ios.measuring.measured_costs import measured_costs
from tvm_ios.measuring.measurer import Measurement, Measurer
from tvm_ios.measuring.timing_device import UntimedError
from tvm_ios.policies.policy import Found, Limits, Problem
from tvm_ios.program.program import Program
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.search import Search

#: Two blocks, each of three branches that are joined; no two units are alike.
GRAPH = graph_of(
    (0, 0, 0, 0b1, 0b10, 0b11100, *(0b1 << 5,) * 3, 0b1 << 6, 0b1 << 7, 0b111 << 8),
    [f"kind{unit}" for unit in range(12)],
)
BLOCKS = (0b111111, 0b111111 << 6)
FOREVER = Budget()


def find(
    path: Path, device: SleepingDevice, policy: str = "ios-both", budget: Budget = FOREVER
) -> Found:
    timer = timer_of(GRAPH, device, path)
    problem = Problem(GRAPH, BLOCKS, mergeable=lambda _, units: len(units) < 3)
    costs = measured_costs(timer, choose_forms=True)
    found = Search(problem, costs, Limits(budget=budget)).find(policy, priced=True)
    timer.end_run()
    statistics = found.statistics and replace(found.statistics, seconds=0.0)
    return replace(found, statistics=statistics)


@pytest.mark.parametrize(
    "policy", ["sequential", "greedy", "ios-parallel", "ios-both", "ios-holistic", "rammer"]
)
def test_the_same_schedule_in_fewer_rounds(tmp_path: Path, policy: str) -> None:
    one, three = SleepingDevice(1), SleepingDevice(3)
    alone = find(tmp_path / "one.jsonl", one, policy)
    assert find(tmp_path / "three.jsonl", three, policy) == alone
    assert (one.most, three.most) == (1, 3)
    assert one.rounds == one.calls == three.calls
    assert three.rounds < one.rounds / 2
    lines = [sorted((tmp_path / f"{n}.jsonl").read_text().splitlines()) for n in ("one", "three")]
    assert lines[0] == lines[1]


def test_everything_is_measured_several_at_once_too(tmp_path: Path) -> None:
    one, three = SleepingDevice(1), SleepingDevice(3)
    everything = Budget(everything=True)
    alone = find(tmp_path / "one.jsonl", one, budget=everything)
    assert find(tmp_path / "three.jsonl", three, budget=everything) == alone
    assert three.calls == one.calls
    assert three.rounds < one.rounds / 2


@pytest.mark.parametrize("most", [0, 13, 17])
def test_a_budget_ends_the_same_search(tmp_path: Path, most: int) -> None:
    one, three = SleepingDevice(1), SleepingDevice(3)
    budget = Budget(max_measurements=most)
    alone = find(tmp_path / "one.jsonl", one, budget=budget)
    assert find(tmp_path / "three.jsonl", three, budget=budget) == alone
    assert three.calls == one.calls
    assert alone.statistics is not None
    assert alone.statistics.stages_measured == max(most, len(GRAPH))
    assert not alone.statistics.complete


def test_without_time_single_units_are_measured_still(tmp_path: Path) -> None:
    found = find(tmp_path / "log.jsonl", SleepingDevice(3), budget=Budget(time_limit=0.0))
    assert found.statistics is not None
    assert found.statistics.stages_measured == len(GRAPH)


@pytest.mark.slow
def test_a_stage_without_a_time_costs_itself_alone(tmp_path: Path) -> None:
    def untimed(program: Program) -> bool:
        return len(program.kernels) > 1

    alone = find(tmp_path / "one.jsonl", SleepingDevice(1, untimed))
    assert find(tmp_path / "three.jsonl", SleepingDevice(3, untimed)) == alone
    assert all(
        len(stage.groups) == 1 or stage.strategy is Strategy.MERGE
        for stage in alone.schedule.stages
    )


def test_a_form_without_a_time_is_not_chosen(tmp_path: Path) -> None:
    device = SleepingDevice(3, lambda program: program.kernels[0].endswith("tuned"))
    timer = timer_of(GRAPH, device, tmp_path / "log.jsonl")
    timer.compile_units()
    assert all(timer.forms((unit,)).key.endswith("default") for unit in range(len(GRAPH)))
    assert all(
        kernel.name != "tuned" for unit in range(len(GRAPH)) for kernel in timer.rkernels(unit)
    )


def test_a_unit_without_a_time_is_an_error(tmp_path: Path) -> None:
    device = SleepingDevice(3, lambda program: program.kernels[0].startswith("u4 "))
    with refused(UntimedError, "does without"):
        find(tmp_path / "log.jsonl", device)


def test_what_a_killed_run_measured_is_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    stages = [Stage(Strategy.CONCURRENT, ((u,), (v,))) for u in (0, 1, 2) for v in (6, 7, 8)]
    first = timer_of(GRAPH, SleepingDevice(3), path)
    first.compile_units()
    first.measure_units()
    known = [*islice(first.stage_latencies(stages), 4)]
    device = SleepingDevice(3)
    again = timer_of(GRAPH, device, path)
    again.compile_units()
    again.measure_units()
    assert device.calls == 0
    assert [*again.stage_latencies(stages)][:4] == known
    assert 0 < device.calls < 6


def measurements(
    count: int, answer: Callable[[int], list[list[float]]], taken: list[int]
) -> Iterator[Measurement]:
    for number in range(count):
        taken.append(number)
        yield Measurement({str(number): "label"}, lambda n=number: lambda: answer(n))


@pytest.fixture
def log(tmp_path: Path) -> MeasurementLog:
    return MeasurementLog(tmp_path / "log.jsonl", LogHeader("device", "target", "tvm"))


def test_outcomes_come_in_order_and_measurements_are_taken_late(log: MeasurementLog) -> None:
    """The first one takes longest; no more than three are measured, and one is prepared."""
    others, taken = threading.Event(), list[int]()

    def answer(number: int) -> list[list[float]]:
        if number == 0:
            assert others.wait(60)
        if number == 5:
            others.set()
        return [[1.0 + number]]

    outcomes = Measurer(log, 3).outcomes(measurements(9, answer, taken))
    assert next(outcomes).seconds == (1.0,)
    assert 6 <= len(taken) < 10
    assert [outcome.seconds for outcome in outcomes] == [(1.0 + n,) for n in range(1, 9)]
    assert taken == [*range(9)]


def test_equal_measurements_are_taken_once(log: MeasurementLog) -> None:
    calls: list[str] = []

    def measurement(*keys: str) -> Measurement:
        def ask() -> list[list[float]]:
            calls.append(" ".join(keys))
            return [[2.0] for _ in keys]

        return Measurement(dict.fromkeys(keys, "label"), lambda: ask)

    asked = [measurement("a"), measurement("a", "b"), measurement("b"), measurement("a")]
    outcomes = list(Measurer(log, 3).outcomes(asked))
    assert [outcome.seconds for outcome in outcomes] == [(2.0,), (2.0, 2.0), (2.0,), (2.0,)]
    assert calls == ["a", "a b"]


def test_what_ended_before_a_failure_is_kept(log: MeasurementLog) -> None:
    failing, taken = threading.Event(), list[int]()

    def answer(number: int) -> list[list[float]]:
        if number == 1:
            assert failing.wait(60)
            raise UserError("the device is gone")
        if number == 2:
            failing.set()
        return [[1.0]]

    with refused(UserError, "is gone"):
        list(Measurer(log, 3).outcomes(measurements(20, answer, taken)))
    assert {"0", "2"} <= log.measurements.keys()
    assert len(taken) < 10


@pytest.mark.usefixtures("hearing")
def test_an_interruption_keeps_what_has_ended(log: MeasurementLog) -> None:
    """Ctrl-C comes while three are measured, of which one has ended."""
    ended, release = threading.Event(), threading.Event()

    def answer(number: int) -> list[list[float]]:
        if number:
            assert ended.wait(60)
            if number == 1:
                # To the thread that waits, as the system does: one sent to another wakes nobody.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            assert release.wait(60)
        else:
            ended.set()
        return [[1.0]]

    taken = list[int]()
    with pytest.raises(KeyboardInterrupt):
        list(Measurer(log, 3).outcomes(measurements(20, answer, taken)))
    release.set()
    assert "0" in {json.loads(line).get("key") for line in log.path.read_text().splitlines()}
    assert len(taken) < 8
