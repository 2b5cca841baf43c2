"""The contest of a model's policies: against TVM's own build, and against each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.api.candidates import Candidates
from tvm_ios.api.fleet_contests import hold_contest_on_fleet
from tvm_ios.api.located import located
from tvm_ios.api.tvm_build import TvmBuild
from tvm_ios.clock import Clock
from tvm_ios.contest import rules
from tvm_ios.contest.contest import TimeElsewhere, hold_contest
from tvm_ios.contest.outputs import Reference, VerificationError, Verify
from tvm_ios.contest.rounds import Samples
from tvm_ios.contest.tolerance import rounds
from tvm_ios.contest.verdict import TVM, Verdict
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.progress import Progress
from tvm_ios.schedule.first_difference import kinds

if TYPE_CHECKING:
    from relay_passes.load import LoadedModel
    from relay_passes.search_options import SearchOptions
    from runtime_ext.execution.built_model import BuiltModel


def compare_policies(
    loaded: LoadedModel,
    candidates: Candidates,
    tvm_build: Path,
    reference: Reference,
    options: SearchOptions,
    allowed: Collection[str],
    progress: Progress,
    clock: Clock,
    *,
    beside_tvm: bool,
    verify: Verify,
) -> tuple[Verdict, Reference]:
    """Verify and time the policies' programs; which to keep, and by which reference.

    Parameters
    ----------
    loaded
        The model.
    candidates
        Its programs.
    tvm_build
        What TVM made of the unscheduled model for this CPU, a ``.so``.
    reference
        What they have to compute; see :func:`reference_for`.
    options
        Lanes and precision.
    allowed
        The policies that may be kept.
    progress, clock
        As of :func:`tvm_ios.contest.contest.hold_contest`.
    beside_tvm
        Whether TVM's own build is timed too, not only compared with.
    verify
        What the programs are compared with.

    Raises
    ------
    VerificationError
        If a program computes something else; says where that begins, as far as it can be told.
    """
    from runtime_ext.execution.bound_model import bind_library
    from runtime_ext.verification.reference import judged

    def contest(reference: Reference) -> Verdict:
        if options.fleet is not None:
            return hold_contest_on_fleet(
                candidates, options.fleet, reference, allowed, progress, clock
            )
        # What computes something else is not compared with.
        beside = beside_tvm and not reference.tvm_difference
        tvm = bind_library(tvm_build)(reference.samples[0].inputs).run if beside else None
        with temporary_folder() as folder:
            return hold_contest(
                candidates.schedules,
                lambda policy: candidates.built[policy].session(),
                reference,
                _timed_elsewhere(candidates, tvm_build, options, reference, folder),
                progress,
                tvm=tvm,
                allowed=allowed,
                clock=clock,
            )

    try:
        reference, verdict = judged(loaded.original, reference, contest)
    except VerificationError as error:
        if options.fleet is not None:
            raise
        raise located(
            error,
            loaded,
            candidates.built,
            reference,
            options,
            verify,
            progress,
            on_cpu=beside_tvm,
        ) from error
    if options.fleet is not None:
        sentence = "TVM's own build was not compared with: programs were timed on a fleet"
        return replace(verdict, skipped={**verdict.skipped, TVM: sentence}), reference
    if not (how := reference.tvm_difference):
        return verdict, reference
    sentence = (
        f"TVM's own build differs from the result of {reference.source} {how}, "
        "so it was not compared with"
    )
    return replace(verdict, skipped={**verdict.skipped, TVM: sentence}), reference


def reference_for(
    loaded: LoadedModel,
    program: BuiltModel,
    tvm_build: TvmBuild,
    options: SearchOptions,
    verify: Verify,
    progress: Progress,
    *,
    on_cpu: bool,
    beside_tvm: bool,
) -> Reference:
    """What the programs of a model have to compute.

    Parameters
    ----------
    loaded, options, verify, progress
        As of :func:`compare_policies`.
    program
        One of them.
    tvm_build
        TVM's own build, which is asked where nothing else says what the model computes.
    on_cpu
        Whether they run on a CPU.
    beside_tvm
        Whether TVM's own build is compared as well.
    """
    from runtime_ext.execution.session import random_values
    from runtime_ext.verification.reference import ComparedModel, reference_of

    inputs = random_values(program.inputs)
    progress("computing the reference", 0, 1)
    reference = reference_of(
        ComparedModel(loaded.original, loaded.onnx, tvm_build.outputs),
        inputs,
        verify,
        precision=options.precision or "float32",
        quantised=rounds(kinds(program.schedule.get("graph", {}))),
        # Of infinities alone TVM's reductions make finite numbers, in Relay and on GPUs also ours.
        infinities=loaded.dialect.name == "relax" and on_cpu,
        beside_tvm=beside_tvm,
    )
    progress("computing the reference", 1, 1)
    return reference


def _timed_elsewhere(
    candidates: Candidates,
    tvm_build: Path,
    options: SearchOptions,
    reference: Reference,
    folder: Path,
) -> TimeElsewhere:
    """What times programs in a fresh process.

    Parameters
    ----------
    candidates, tvm_build, options
        As of :func:`compare_policies`.
    reference
        What TVM's own build agrees with, if it is timed too.
    folder
        Where programs are saved for that.
    """
    from runtime_ext.peers.side_by_side import SideBySide, run_side_by_side

    def time_elsewhere(policies: Sequence[str], _: int) -> Samples:
        ours = [policy for policy in policies if policy != TVM]
        for policy in ours:
            if not (folder / policy).exists():
                candidates.built[policy].save(folder / policy)
        outcome = run_side_by_side(
            SideBySide(
                {policy: folder / policy for policy in ours},
                options.lanes,
                rules.CONFIRMATION,
                [policy for policy in policies if policy == TVM],
                tvm=tvm_build,
                precision=reference.precision,
                verified=reference.source is not None,
                own_error=reference.own_error,
            )
        )
        if TVM in outcome.failed:
            raise UserError(f"TVM's own build failed: {outcome.failed[TVM]}")
        return outcome.samples

    return time_elsewhere
