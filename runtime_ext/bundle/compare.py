"""Programs of a bundle compared: what they compute, then how long they take."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from runtime_ext.backend import Backend
from runtime_ext.bundle.contents import Bundle
from runtime_ext.bundle.kernels import BundledKernels
from runtime_ext.bundle.programs import bundled_program
from runtime_ext.contest import Rules, hold_contest
from runtime_ext.execution.session import Session
from tvm_ios.contest.paired import PairedRatio
from tvm_ios.contest.verdict import (
    PolicyResult,
    compare_outputs,
    first_with_equal_schedule,
    kept_policy,
    most_promising,
    policy_results,
)
from tvm_ios.errors import UserError
from tvm_ios.measuring.stage_fuser import UnfusedError
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.progress import Progress
from tvm_ios.schedule.schedule import Schedule

_RULES = Rules(rounds=40, seconds=10.0, minimum=3, warm_up=1)
_ELSEWHERE = Rules(rounds=40, seconds=6.0, warm_up=1)


def compare_policies(
    bundle: Bundle,
    backend: Backend[BundledKernels],
    timer: StageTimer,
    schedules: Mapping[str, Schedule],
    progress: Progress,
) -> tuple[tuple[PolicyResult, ...], dict[str, str]]:
    """Errors against the bundle's reference outputs, and latencies taken in turn.

    Returns
    -------
    tuple of PolicyResult, dict
        And for policies with a stage that cannot be one kernel here why.

    Raises
    ------
    VerificationError
        If a schedule computes something else.
    """
    lowered = {policy: timer.timed(schedule) for policy, schedule in schedules.items()}
    measured_as = first_with_equal_schedule(lowered)
    different = list(dict.fromkeys(measured_as.values()))
    skipped: dict[str, str] = {}
    sessions: dict[str, Session] = {}
    errors: dict[str, tuple[float, float]] = {}
    try:
        for done, policy in enumerate(different):
            progress("building and verifying", done, len(different))
            try:
                session = backend.session(bundled_program(bundle, backend, timer, lowered[policy]))
            except UnfusedError as error:
                skipped |= {p: str(error) for p, first in measured_as.items() if first == policy}
                continue
            sessions[policy] = session
            errors[policy] = verified(bundle, policy, session)
        progress("building and verifying", len(different), len(different))
        runners: dict[str, Callable[[], None]] = {p: s.run for p, s in sessions.items()}
        samples = hold_contest(runners, _RULES, lambda n: progress("measuring", n, _RULES.rounds))
    finally:
        for session in sessions.values():
            session.close()
    built = {policy: first for policy, first in measured_as.items() if policy not in skipped}
    stages = {policy: len(schedules[policy].stages) for policy in built}
    return policy_results(stages, built, samples, errors), skipped


def confirm(
    bundle: Bundle,
    schedules: Mapping[str, Path],
    results: Sequence[PolicyResult],
    log: Path,
    options: Sequence[str],
    progress: Progress,
) -> tuple[str, dict[str, PairedRatio]]:
    """The policy to keep, and its ratio to ``sequential``, from three fresh processes.

    They are given the same options as this one.
    """
    best = most_promising(results)
    names = list(dict.fromkeys(("sequential", best)))
    times = 3 if len(names) > 1 else 1
    contests: list[Mapping[str, list[float]]] = []
    for number in range(times):
        progress("confirming", number, times)
        # Who is loaded first lies elsewhere in memory.
        order = list(reversed(names)) if number % 2 else names
        task = {policy: str(schedules[policy]) for policy in order}
        command = [sys.executable, str(bundle.folder / "run.py")]
        command += ["--contest", json.dumps(task)]
        command += [*options, "--output", str(log.parent)]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
        if done.returncode:
            last = [f"it ended with {done.returncode}", *done.stderr.strip().splitlines()][-1]
            raise UserError(f"the measurement in a fresh process failed: {last}")
        contests.append(json.loads(done.stdout.splitlines()[-1]))
    progress("confirming", times, times)
    return kept_policy(best, contests)


def contest(
    bundle: Bundle,
    backend: Backend[BundledKernels],
    timer: StageTimer,
    schedules: Mapping[str, Path],
) -> dict[str, list[float]]:
    """Samples of some saved schedules, in this process."""
    sessions = {
        name: backend.session(bundled_program(bundle, backend, timer, Schedule.load(path)))
        for name, path in schedules.items()
    }
    for session in sessions.values():
        session.run(**bundle.reference_inputs)
    samples = hold_contest({name: s.run for name, s in sessions.items()}, _ELSEWHERE)
    for session in sessions.values():
        session.close()
    return samples


def verified(bundle: Bundle, policy: str, session: Session) -> tuple[float, float]:
    """Largest absolute and relative error of one run; refuses what is not rounding."""
    session.run(**bundle.reference_inputs)
    found = [session.get_output(place) for place in range(len(bundle.outputs))]
    return compare_outputs(policy, found, bundle.reference_outputs, bundle.about["precision"])


def results_json(results: Sequence[PolicyResult]) -> list[dict[str, object]]:
    """As ``tvm-ios optimize --json`` has them."""
    rows: list[dict[str, object]] = []
    for row in results:
        data = asdict(row)
        data["latency_ms"] = data.pop("latency") * 1e3
        rows.append(data)
    return rows
