"""What is kept: the fastest whose interval lies below one; what computes else is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.random_dags import graph_of
from tests.refusals import refused
from tvm_ios.contest.outputs import Reference, Sample, VerificationError, verify_outputs
from tvm_ios.contest.verdict import (
    PolicyResult,
    first_with_equal_schedule,
    kept_policy,
    most_promising,
    policy_results,
)
from tvm_ios.policies.sequential import sequential_schedule
from tvm_ios.schedule.stage import Stage, Strategy


def best_of(**ratios: float) -> str:
    return most_promising([PolicyResult(p, 1.0, ratio, 3, 0.0, 0.0) for p, ratio in ratios.items()])


def test_the_fastest_is_asked_again_and_tvm_is_not_ours() -> None:
    assert best_of(tvm=0.1, sequential=1.0, greedy=0.9, ios=0.8) == "ios"
    assert best_of(tvm=0.5, sequential=1.0, greedy=1.0, ios=1.3) == "sequential"


NOISE = np.linspace(0.99, 1.01, 20)


def samples(**factors: float) -> dict[str, list[float]]:
    return {name: (factor * NOISE).tolist() for name, factor in factors.items()}


def test_keeps_the_fastest_if_it_is_faster_again() -> None:
    again = samples(tvm=2.0, sequential=1.0) | {"ios": [0.5] * 20}
    kept, confirmed = kept_policy("ios", [again, samples(sequential=1.0) | {"ios": [0.9] * 20}])
    assert kept == "ios"
    assert confirmed["sequential"].high < 1
    assert confirmed["tvm"].median == pytest.approx(0.25, rel=0.02)


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_keeps_sequential_if_it_was_luck(factor: float) -> None:
    """Equal is not faster: a quarter of these pairs are slower."""
    again = samples(tvm=2.0, sequential=1.0)
    again["ios"] = [factor * x for x in np.where(np.arange(20) % 4, 0.999, 1.2)]
    again["ios"] = [a * b for a, b in zip(again["ios"], again["sequential"], strict=True)]
    if factor == 1.0:
        # Fifteen of twenty pairs are faster, so this one would be kept; one pair less is doubt.
        again["ios"][1] = 2.0
    kept, confirmed = kept_policy("ios", [again])
    assert kept == "sequential"
    assert confirmed["sequential"].median == 1.0
    assert confirmed["tvm"].median == pytest.approx(0.5)


def test_keeps_sequential_if_one_process_says_so() -> None:
    much_faster, slower = (samples(sequential=1.0) | {"ios": [s] * 20} for s in (0.5, 1.01))
    first = much_faster | samples(tvm=2.0)
    assert kept_policy("ios", [first, much_faster])[0] == "ios"
    kept, confirmed = kept_policy("ios", [first, much_faster, slower])
    assert kept == "sequential"
    assert confirmed["sequential"].pairs == 60


def test_a_slow_tvm_has_fewer_samples() -> None:
    again = samples(sequential=1.0) | {"tvm": [4.0, 4.0, 4.0], "ios": [0.5] * 20}
    _, confirmed = kept_policy("ios", [again])
    assert confirmed["tvm"].pairs == 3
    assert confirmed["sequential"].pairs == 20


def test_equal_programs_are_those_of_equal_stages_and_latencies() -> None:
    graph = graph_of([0, 0])
    one = sequential_schedule(graph)
    searched = replace(one, policy="ios-both", device="a CPU", batch=1).with_latencies((1.0, 2.0))
    timed = replace(searched, policy="timed", unit_latencies={0: (1.0,), 1: (2.0,)})
    both = replace(one, stages=(Stage(Strategy.CONCURRENT, ((0,), (1,))),))
    schedules = {"sequential": one, "ios-both": searched, "timed": timed, "greedy": both}
    assert first_with_equal_schedule(schedules) == {
        "sequential": "sequential",
        "ios-both": "sequential",
        "timed": "timed",
        "greedy": "greedy",
    }


def test_policies_of_one_schedule_share_their_measurement() -> None:
    measured = {"sequential": "sequential", "greedy": "greedy", "ios": "greedy"}
    rows = policy_results(
        {"sequential": 9, "greedy": 4, "ios": 4},
        measured,
        samples(tvm=4.0, sequential=2.0, greedy=1.0),
        {"tvm": (0.0, 0.0), "sequential": (1e-6, 1e-7), "greedy": (2e-6, 2e-7)},
    )
    assert [row.policy for row in rows] == ["tvm", "sequential", "greedy", "ios"]
    assert [row.stages for row in rows] == [None, 9, 4, 4]
    assert [row.ratio for row in rows] == pytest.approx([2.0, 1.0, 0.5, 0.5])
    assert [row.latency for row in rows] == pytest.approx([4.0, 2.0, 1.0, 1.0])
    assert [row.max_rel_error for row in rows] == [0.0, 1e-7, 2e-7, 2e-7]


def errors(outputs: Any, reference: Any) -> tuple[float, float]:
    ours, theirs = ([np.asarray(x, np.float32) for x in part] for part in (outputs, reference))
    sample = Sample({}, theirs)
    return verify_outputs("greedy", ours, sample, Reference([sample]))


def test_errors_are_relative_to_the_largest_of_each_output() -> None:
    absolute, relative = errors([[1.0, 4.0], [100.01]], [[1.001, 4.0], [100.0]])
    assert absolute == pytest.approx(0.01, rel=1e-2)
    assert relative == pytest.approx(0.001 / 4, rel=1e-3)
    assert errors([[1e-9]], [[0.0]])[1] == pytest.approx(1e-9)
    assert errors([[]], [[]]) == (0, 0)


def test_masks_agree_where_they_are_the_same() -> None:
    lowest, none = -float("inf"), float("nan")
    assert errors([[2.0, lowest, none]], [[2.0, lowest, none]]) == (0, 0)
    assert errors([[2.001, lowest]], [[2.0, lowest]])[1] == pytest.approx(5e-4, rel=1e-3)
    for value, reference in ((-lowest, lowest), (2.0, lowest), (none, lowest), (lowest, none)):
        with pytest.raises(VerificationError):
            errors([[2.0, value]], [[2.0, reference]])


@pytest.mark.parametrize("wrong", [1.01, float("nan"), float("inf")])
def test_a_wrong_result_is_refused(wrong: float) -> None:
    with refused(VerificationError, "greedy", "TVM's own"):
        errors([[1.0, wrong]], [[1.0, 1.0]])
