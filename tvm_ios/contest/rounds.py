"""Run several runners in turn in one process, each when no other thread is busy."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm_ios.contest.pairs import FEWEST_TO_DECIDE, surely_above
from tvm_ios.contest.rules import Rules

#: Runs a program once; one that runs elsewhere returns the seconds by the clock there.
Runner = Callable[[], Any]
#: Seconds of the runs of each runner; the i-th samples of all are from the same round.
Samples = Mapping[str, Sequence[float]]

_LONGEST_SETTLING_SECONDS = 0.2


def run_in_turn(
    runners: Mapping[str, Runner], rules: Rules, report: Callable[[int], None] | None = None
) -> dict[str, list[float]]:
    """Run all runners in turn, and return the seconds of each one's runs.

    Each round has another order. In an order that only rotates, the runner after one with the same
    weights would always find them in the cache.

    A slow runner, of which 30 runs would take all the time allowed, has the first ``minimum``
    rounds only, or fewer if it is hopeless: its samples pair with the first samples of the others.
    So do those of a runner that is stopped because it cannot win. A slow runner that has nothing to
    win against runs once.

    One or two first runs are not counted. ``report`` is called after each round with the number of
    rounds done.
    """
    first_run = {name: _seconds(run) for name, run in runners.items()}
    limit = rules.seconds / 30
    if rules.margin is not None and len(runners) == 1 and min(first_run.values()) > limit:
        return {name: [seconds] for name, seconds in first_run.items()}
    for name, seconds in first_run.items():
        # A first run in cold memory is slower, but not ten times: run such a runner once more.
        if limit < seconds < 10 * min(first_run.values()):
            first_run[name] = _seconds(runners[name])
    rounds_of_slow = {
        name: max(rules.hopeless_rounds, min(rules.minimum, int(rules.hopeless_seconds / seconds)))
        if seconds > 3 * min(first_run.values())
        else rules.minimum
        for name, seconds in first_run.items()
        if seconds > limit
    }
    samples: dict[str, list[float]] = {name: [] for name in runners}
    spent = 0.0
    names = list(runners)
    beaten: set[str] = set()
    for number in range(rules.rounds):
        if number >= rules.minimum and spent > rules.seconds:
            break
        if rules.margin is not None and number >= FEWEST_TO_DECIDE:
            running = {n: samples[n] for n in names if n not in beaten | rounds_of_slow.keys()}
            beaten |= _beaten(running, rules.margin)
            if len(running.keys() - beaten) < 2:
                break
        for name in random.Random(number).sample(names, len(names)):
            slow = name in rounds_of_slow
            if name in beaten or (slow and number >= rounds_of_slow[name]):
                continue
            begin = time.perf_counter()
            _settle()
            for _ in range(0 if slow else rules.warm_up):
                runners[name]()
            samples[name].append(_seconds(runners[name]))
            spent += 0.0 if slow else time.perf_counter() - begin
        if report is not None:
            report(number + 1)
    return {name: taken or [first_run[name]] for name, taken in samples.items()}


def _beaten(samples: Samples, margin: float) -> set[str]:
    """Return the runners that cannot beat the fastest by more than ``margin`` of its time."""
    fastest = min(samples, key=lambda name: statistics.median(samples[name]), default="")
    others = samples.keys() - {fastest}
    return {
        name
        for name in others
        if surely_above(
            [a / b for a, b in zip(samples[name], samples[fastest], strict=True)], 1 - margin
        )
    }


def _seconds(run: Runner) -> float:
    begin = time.perf_counter()
    told = run()
    return told if isinstance(told, float) else time.perf_counter() - begin


def _settle() -> None:
    """Wait until no thread of this process is busy.

    Runtimes let their threads spin for a while after a run (ONNX Runtime for 40 ms), which would
    take a CPU from the next runner.
    """
    deadline = time.perf_counter() + _LONGEST_SETTLING_SECONDS
    quiet = 0
    while quiet < 3 and time.perf_counter() < deadline:
        before = time.process_time()
        time.sleep(2e-3)
        quiet = quiet + 1 if time.process_time() - before < 2e-4 else 0
