"""Who gets how many rounds of a contest, by a clock that only runners move."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tvm_ios.contest import rules as rule_sets
from tvm_ios.contest.contest import _confirmed
from tvm_ios.contest.pairs import PairedRatio
from tvm_ios.contest.rounds import Samples, run_in_turn
from tvm_ios.contest.rules import Rules
from tvm_ios.contest.verdict import PolicyResult, faster_in_each, kept_policy, ratio_of_all
from tvm_ios.progress import silent


class Clock:
    """Stands still but for those who sleep."""

    def __init__(self) -> None:
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def takes(self, seconds: float) -> Callable[[], None]:
        return lambda: self.sleep(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(time, "perf_counter", lambda: fake.now)
    monkeypatch.setattr(time, "process_time", lambda: 0.0)
    monkeypatch.setattr(time, "sleep", fake.sleep)
    return fake


def rounds(runners: dict[str, Callable[[], None]], rules: Rules) -> dict[str, int]:
    return {name: len(samples) for name, samples in run_in_turn(runners, rules).items()}


@pytest.mark.parametrize("fewest", [2, 0])
def test_a_hopeless_runner_has_few_rounds(clock: Clock, fewest: int) -> None:
    """Or none: then the run that said so is its sample."""
    runners = {"fast": clock.takes(0), "slow": clock.takes(0.02), "hopeless": clock.takes(0.1)}
    rules = Rules(rounds=8, seconds=0.3, minimum=4, hopeless_seconds=0.25, hopeless_rounds=fewest)
    assert rounds(runners, rules) == {"fast": 8, "slow": 4, "hopeless": 2}
    rules = replace(rules, hopeless_seconds=0.09)
    assert rounds(runners, rules)["hopeless"] == max(fewest, 1)


def test_who_cannot_win_runs_no_more(clock: Clock) -> None:
    runners = {name: clock.takes(s) for name, s in (("best", 1.0), ("near", 1.005), ("bad", 1.1))}
    rules = Rules(rounds=20, seconds=1e9, minimum=3)
    assert rounds(runners, rules) == {"best": 20, "near": 20, "bad": 20}
    decided = {"best": 8, "near": 8, "bad": 8}
    assert rounds(runners, replace(rules, margin=0.0)) == decided
    # What is never faster than the best by a percent is no better, whoever is ahead of whom.
    turns = iter(range(1000))
    wavering = {"best": clock.takes(1.0), "near": lambda: clock.sleep(0.995 + next(turns) % 2 / 50)}
    assert rounds(wavering, replace(rules, margin=0.0)) == {"best": 20, "near": 20}
    assert rounds(wavering, replace(rules, margin=0.01)) == {"best": 8, "near": 8}


def test_a_slow_runner_alone_runs_once(clock: Clock) -> None:
    rules = Rules(rounds=9, seconds=30.0, minimum=3)
    assert rounds({"one": clock.takes(2.0)}, rules) == {"one": 3}
    assert rounds({"one": clock.takes(2.0)}, replace(rules, margin=0.01)) == {"one": 1}
    assert rounds({"one": clock.takes(0.5)}, replace(rules, margin=0.01)) == {"one": 8}


def test_the_others_go_on_without_who_is_beaten(clock: Clock) -> None:
    flips = iter([1, -1] * 100)
    runners = {
        "one": clock.takes(1.0),
        "other": lambda: clock.sleep(1.0 + next(flips) / 9),
        "bad": clock.takes(1.5),
    }
    rules = Rules(rounds=20, seconds=1e9, minimum=3, margin=0.0)
    assert rounds(runners, rules) == {"one": 20, "other": 20, "bad": 8}


def test_where_all_are_slow_all_have_the_minimum(clock: Clock) -> None:
    runners = {"one": clock.takes(0.03), "other": clock.takes(0.03)}
    rules = Rules(rounds=6, seconds=0.3, minimum=3, hopeless_seconds=0.01)
    assert rounds(runners, rules) == {"one": 3, "other": 3}


def test_a_contest_ends_in_time_but_not_before_the_minimum(clock: Clock) -> None:
    runners = {"one": clock.takes(1 / 64), "other": clock.takes(3 / 64)}
    # Each run waits for quiet, 6 ms, before it.
    assert rounds(runners, Rules(rounds=60, seconds=2.0, minimum=6)) == {"one": 27, "other": 27}
    assert rounds(runners, Rules(rounds=60, seconds=2.0, minimum=40)) == {"one": 40, "other": 40}


def test_processes_share_rounds_and_seconds() -> None:
    rules = Rules(rounds=200, seconds=30.0, minimum=12, hopeless_seconds=20.0)
    assert rules.shared_by(6) == Rules(rounds=34, seconds=5.0, minimum=2, hopeless_seconds=20 / 6)
    assert rules.shared_by(1) == rules


def policy_result(policy: str, ratio: float) -> PolicyResult:
    return PolicyResult(policy, 1.0, ratio, 1, None, None)


@pytest.mark.parametrize(("ratios", "held"), [((0.5, 0.5, 0.5), 3), ((0.5, 1.1), 2), ((1.1,), 1)])
def test_a_contest_that_is_decided_ends(ratios: tuple[float, ...], held: int) -> None:
    """One process that says no is enough, as all would have to say yes."""
    asked: list[int] = []

    def elsewhere(policies: Sequence[str], process: int) -> Samples:
        asked.append(process)
        return {"sequential": [1.0] * 20, "ios": [ratios[process]] * 20}

    results = [policy_result("sequential", 1.0), policy_result("ios", 0.5)]
    names = {"sequential": "sequential", "ios": "ios"}
    kept, _ = _confirmed(results, {}, names, elsewhere, silent)
    assert kept == ("ios" if held == 3 else "sequential")
    assert asked == list(range(held))


@pytest.mark.parametrize(("ratio", "least", "most"), [(1.0, 0.0, 0.03), (0.97, 0.97, 1.0)])
def test_confirmation_is_seldom_wrong(
    clock: Clock, ratio: float, least: float, most: float
) -> None:
    """How often a program is kept that takes a part of the other one's time, both with noise."""
    noise = random.Random(0)

    def takes(seconds: float) -> Callable[[], float]:
        return lambda: seconds * (1 + noise.expovariate(1 / 0.02))

    kept, contests_held = 0, 400
    for _ in range(contests_held):
        contests: list[Samples] = []
        while len(contests) < rule_sets.CONFIRMING_PROCESSES and (
            faster_in_each("best", "sequential", contests)
        ):
            runners = {"sequential": takes(1e-3), "best": takes(ratio * 1e-3)}
            contests.append(run_in_turn(runners, rule_sets.CONFIRMATION))
        kept += kept_policy("best", contests)[0] == "best"
    print(f"kept in {kept / contests_held:.1%} of {contests_held} contests")
    assert least <= kept / contests_held <= most


@pytest.mark.parametrize(("tvm", "held"), [(2.0, 0), (1.0, 1), (0.5, 1)])
def test_what_one_process_decides_is_not_asked_of_another(tvm: float, held: int) -> None:
    """The sequential program was the fastest; TVM's own build is asked if it may be faster."""
    asked: list[tuple[str, ...]] = []

    def elsewhere(policies: Sequence[str], _: int) -> Samples:
        asked.append(tuple(policies))
        return {"sequential": [1.0] * 20, "tvm": [tvm * 2] * 20}

    here = {"sequential": [1.0] * 8, "tvm": [tvm] * 8, "ios": [1.2] * 8}
    results = [policy_result("tvm", tvm), policy_result("sequential", 1.0)]
    names = {"sequential": "sequential", "ios": "ios"}
    kept, ratios = _confirmed([*results, policy_result("ios", 1.2)], here, names, elsewhere, silent)
    assert kept == "sequential"
    assert asked == [("sequential", "tvm")] * held
    assert ratios["sequential"].median == 1
    assert ratios["tvm"].median == pytest.approx(1 / tvm / (2 if held else 1))


def test_pairs_stay_pairs_where_contests_differ_in_length() -> None:
    short = {"sequential": [1.0] * 8, "ios": [0.5] * 8, "tvm": [9.0]}
    long = {"sequential": [4.0] * 20, "ios": [2.0] * 12}
    assert ratio_of_all([short, long], "ios", "sequential") == PairedRatio(0.5, 0.5, 0.5, 20)


def test_a_runner_that_was_slow_once_has_a_second_try(clock: Clock) -> None:
    """The first run meets cold memory."""
    durations = iter([0.5])
    runners = {"one": lambda: clock.sleep(next(durations, 0.001))}
    assert rounds(runners, Rules(rounds=9, seconds=1.0, minimum=3)) == {"one": 9}


def test_what_runs_elsewhere_tells_its_own_seconds(clock: Clock) -> None:
    """The way there and back, which takes longer, does not count."""

    def elsewhere() -> float:
        clock.sleep(0.5)
        return 0.25

    samples = run_in_turn(
        {"elsewhere": elsewhere, "here": clock.takes(0.125)}, Rules(rounds=3, minimum=3)
    )
    assert samples == {"elsewhere": [0.25] * 3, "here": [0.125] * 3}
