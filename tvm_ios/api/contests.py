"""Programs compared with TVM's own and with each other: what they compute, and how fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tvm_ios.api.candidates import Candidates
from tvm_ios.contest.paired import PairedRatio
from tvm_ios.contest.verdict import (
    PolicyResult,
    compare_outputs,
    kept_policy,
    most_promising,
    policy_results,
)
from tvm_ios.progress import Progress


def measure(
    candidates: Candidates,
    baseline: Path,
    report: Progress,
    lap: Callable[[str], None],
    precision: str,
    *,
    compete: bool,
) -> tuple[PolicyResult, ...]:
    """Compare every program with TVM's own on the CPU, then time them (``compete``: and it)."""
    from runtime_ext.contest import Rules, hold_contest, machine_outputs, virtual_machine

    different = dict.fromkeys(candidates.measured_as.values())
    sessions = {policy: candidates.built[policy].session() for policy in different}
    inputs = sessions["sequential"].random_inputs(0)
    # In float16 only what a GPU stores is so; TVM computes the model as it is.
    widened = {"float16": "float32"} if precision == "float16" else {}
    given = {n: v.astype(widened.get(str(v.dtype), v.dtype)) for n, v in inputs.items()}
    run_tvm = virtual_machine(baseline, given)
    reference = machine_outputs(run_tvm())
    errors = {"tvm": (0.0, 0.0)}
    runners: dict[str, Callable[[], Any]] = {"tvm": run_tvm} if compete else {}
    for policy, session in sessions.items():
        session.run(**inputs)
        found = [session.get_output(place) for place in range(len(session.outputs))]
        errors[policy] = compare_outputs(policy, found, reference, precision)
        runners[policy] = session.run
    lap("verify")
    rules = Rules(rounds=40, seconds=10.0, minimum=3, warm_up=1)
    samples = hold_contest(runners, rules, lambda n: report("measuring", n, rules.rounds))
    for session in sessions.values():
        session.close()
    lap("measure")
    stages = {policy: len(made.stages) for policy, made in candidates.schedules.items()}
    return policy_results(stages, candidates.measured_as, samples, errors)


def confirm(
    candidates: Candidates,
    results: Sequence[PolicyResult],
    folder: Path,
    baseline: Path | None,
    lanes: int,
    report: Progress,
) -> tuple[str, dict[str, PairedRatio]]:
    """The policy to keep of those in ``results``, and its ratios to ``sequential`` and ``tvm``.

    Measured in fresh processes.
    """
    from runtime_ext.contest import Rules, hold_contest_elsewhere

    best = most_promising(results)
    paths: dict[str, Path] = {}
    for policy in dict.fromkeys(("sequential", best)):
        paths[policy] = folder / policy
        candidates.built[policy].save(paths[policy])
    rules = Rules(rounds=40, seconds=6.0, warm_up=1)
    contests: list[Mapping[str, list[float]]] = []
    processes = 3 if len(paths) > 1 else 1
    for number in range(processes):
        report("measuring once more", number, processes)
        # Who is loaded first lies elsewhere in memory. TVM's own is compared once: it differs more.
        order = dict(reversed(paths.items())) if number % 2 else paths
        module = None if number else baseline
        contests.append(hold_contest_elsewhere(order, module, lanes, rules))
    report("measuring once more", processes, processes)
    return kept_policy(best, contests, "sequential" in {row.policy for row in results})
