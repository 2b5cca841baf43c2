"""Who gets how many rounds of a contest."""

from __future__ import annotations

import time

from runtime_ext.contest import Rules, hold_contest


def test_a_hopeless_runner_has_two_rounds() -> None:
    runners = {
        "fast": lambda: None,
        "slow": lambda: time.sleep(0.02),
        "hopeless": lambda: time.sleep(0.1),
    }
    rules = Rules(rounds=8, seconds=0.3, minimum=4, hopeless_seconds=0.25)
    found = {name: len(samples) for name, samples in hold_contest(runners, rules).items()}
    assert found == {"fast": 8, "slow": 4, "hopeless": 2}


def test_where_all_are_slow_all_have_the_minimum() -> None:
    runners = {"one": lambda: time.sleep(0.03), "other": lambda: time.sleep(0.03)}
    rules = Rules(rounds=6, seconds=0.3, minimum=3, hopeless_seconds=0.01)
    found = {name: len(samples) for name, samples in hold_contest(runners, rules).items()}
    assert found == {"one": 3, "other": 3}
