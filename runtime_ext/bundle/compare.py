"""A contest of a bundle's programs: in this process, then in fresh ones to confirm it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from runtime_ext.backend import Backend
from runtime_ext.bundle.contents import Bundle
from runtime_ext.bundle.kernels import BundledKernels
from runtime_ext.bundle.programs import bundled_program
from runtime_ext.execution.session import Session
from runtime_ext.fresh_process import run_fresh_process
from tvm_ios.contest import rules
from tvm_ios.contest.contest import hold_contest
from tvm_ios.contest.outputs import Reference, Sample
from tvm_ios.contest.rounds import Samples, run_in_turn
from tvm_ios.contest.tolerance import rounds
from tvm_ios.contest.verdict import Verdict
from tvm_ios.measuring.stage_timer import StageTimer
from tvm_ios.progress import Progress
from tvm_ios.schedule.schedule import Schedule


def compare_policies(
    bundle: Bundle,
    backend: Backend[BundledKernels],
    timer: StageTimer,
    schedules: Mapping[str, Schedule],
    files: Mapping[str, Path],
    options: Sequence[str],
    progress: Progress,
) -> Verdict:
    """Verify and time the policies' programs, and return the verdict on which to keep.

    ``files`` has the saved schedule of each policy, and ``options`` those of this ``run.py`` that
    fresh processes get too. Raise VerificationError if a program's outputs are wrong.
    """
    timed = {policy: timer.timed(schedule) for policy, schedule in schedules.items()}

    def open_session(policy: str) -> Session:
        return backend.session(bundled_program(bundle, backend, timer, timed[policy]))

    def time_elsewhere(policies: Sequence[str], process: int) -> Samples:
        command = [sys.executable, str(bundle.folder / "run.py"), "--contest", *options]
        return run_fresh_process(command, {policy: str(files[policy]) for policy in policies})

    return hold_contest(timed, open_session, reference_of(bundle), time_elsewhere, progress)


def time_saved(
    bundle: Bundle,
    backend: Backend[BundledKernels],
    timer: StageTimer,
    schedules: Mapping[str, Path],
) -> dict[str, list[float]]:
    """Time saved schedules in this process, a fresh one; return their samples."""
    sessions = {
        name: backend.session(bundled_program(bundle, backend, timer, Schedule.load(path)))
        for name, path in schedules.items()
    }
    for session in sessions.values():
        session.run(**bundle.reference_inputs)
    samples = run_in_turn({name: s.run for name, s in sessions.items()}, rules.CONFIRMATION)
    for session in sessions.values():
        session.close()
    return samples


def reference_of(bundle: Bundle) -> Reference:
    """Return the inputs and outputs with which the bundle's programs are compared."""
    sample = Sample(bundle.reference_inputs, bundle.reference_outputs)
    return Reference(
        [sample, *bundle.edges],
        bundle.about["precision"],
        rounds(unit.kind for unit in bundle.graph.operators),
        bundle.about["reference"],
    )
