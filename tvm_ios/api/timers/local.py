"""Time programs on this machine: in turn in one process, and the fastest in fresh ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from tvm_ios.api.candidates import Candidates
from tvm_ios.api.exactness import exact_enough
from tvm_ios.api.reference import reference_for
from tvm_ios.api.timers.timer import Timed
from tvm_ios.contest import rules
from tvm_ios.contest.contest import hold_contest, verified
from tvm_ios.contest.outputs import Reference, VerificationError
from tvm_ios.contest.rounds import Runner, Samples
from tvm_ios.contest.verdict import TVM, Verdict, policy_results
from tvm_ios.errors import UserError

if TYPE_CHECKING:
    from tvm_ios.api.job import Job
    from tvm_ios.search import Search

#: TVM's own build is not run again if its run for outputs took so many times as long as our units.
_HOPELESS = 10
#: Verifies candidates against a reference and times them, beside TVM's own build if true.
Contest = Callable[[Candidates, bool, Reference], Verdict]


class LocalTimer:
    """A timer that runs programs on this machine, and TVM's own build beside them on its CPU."""

    place = None

    def search(self, job: Job) -> Search:
        """Return the search by stage times measured here."""
        return job.module.search

    def time(self, job: Job, candidates: Candidates, allowed: Collection[str]) -> Timed:
        """Verify programs, time them in turn, and confirm the fastest in three fresh processes."""
        timed = time_in_contest(
            job, candidates, partial(self._contest, job, allowed), self._located
        )
        if not (how := timed.reference.tvm_difference):
            return timed
        sentence = (
            f"TVM's own build differs from the result of {timed.reference.source} {how}, "
            "so it was not compared with"
        )
        return timed.without_tvm(sentence)

    def first(self, job: Job, candidates: Candidates) -> Timed:
        """Verify the sequential program, and run it once."""
        return time_in_contest(job, candidates, _run_once, self._located, beside_tvm=False)

    def _contest(
        self,
        job: Job,
        allowed: Collection[str],
        candidates: Candidates,
        beside_tvm: bool,
        reference: Reference,
    ) -> Verdict:
        # Do not compare with a build that computes something else.
        beside = beside_tvm and job.on_cpu and not reference.tvm_difference
        return hold_contest(
            candidates.schedules,
            lambda policy: candidates.built[policy].session(),
            reference,
            partial(_time_in_a_fresh_process, job, candidates, reference),
            job.report,
            tvm=_tvm_runner(job, candidates, reference) if beside else None,
            allowed=allowed,
            clock=job.clock,
        )

    def _located(
        self, job: Job, error: VerificationError, candidates: Candidates, reference: Reference
    ) -> VerificationError:
        """Return the error with the name of the first operator that differs, if it is found."""
        from relay_passes.first_wrong_operator import first_wrong_operator
        from runtime_ext.execution.first_wrong_unit import first_wrong_unit

        inputs = [sample.inputs for sample in reference.samples]
        if error.policy == "sequential":
            verify = job.options.verify
            where = first_wrong_operator(job.loaded, inputs, job.search, verify, job.report)
        else:
            where = "while the program of one unit after another is right"
            programs = candidates.built["sequential"], candidates.built[error.policy]
            units = (
                first_wrong_unit(*programs, values, reference.tolerance)
                for values in inputs
                if job.on_cpu
            )
            # A wrong program may also fail to run; the error to report is that it is wrong.
            with contextlib.suppress(Exception):
                if (unit := next(filter(None, units), None)) is not None:
                    where = f"first after unit {unit}, {where}"
        return error.located(where)


def time_in_contest(
    job: Job,
    candidates: Candidates,
    contest: Contest,
    located: Callable[
        [Job, VerificationError, Candidates, Reference], VerificationError
    ] = lambda job, error, candidates, reference: error,
    *,
    beside_tvm: bool = True,
) -> Timed:
    """Hold a contest of the programs that are exact enough; ``located`` completes its errors.

    Without ``beside_tvm`` TVM's own build is not compared, whatever the options say.
    """
    from runtime_ext.verification.reference import judged, with_tvm_outputs

    reference = reference_for(job, candidates.built["sequential"], on_cpu=job.on_cpu)
    beside_tvm = beside_tvm and job.options.beside_tvm and job.clock.left > 0
    if beside_tvm:
        job.clock.lap("verify")
        job.own.make()
        reference = with_tvm_outputs(reference, job.own.outputs)
        job.clock.lap("tvm")
    candidates, inexact = exact_enough(job.module, candidates, reference, job.report)
    try:
        attempt = partial(contest, candidates, beside_tvm)
        judge, verdict = judged(job.loaded.original, reference, attempt)
    except VerificationError as error:
        raise located(job, error, candidates, reference) from error
    return Timed(candidates, verdict, judge, inexact)


def _run_once(candidates: Candidates, _: bool, reference: Reference) -> Verdict:
    program, stages = candidates.built["sequential"], candidates.schedules["sequential"].stages
    with closing(program.session()) as session:
        errors = {"sequential": verified("sequential", session, reference)}
        samples = {"sequential": session.benchmark(1, 1)}
    measured_as = {"sequential": "sequential"}
    rows = policy_results({"sequential": len(stages)}, measured_as, samples, errors)
    return Verdict(rows, "sequential", {}, {}, reference.source)


def _tvm_runner(job: Job, candidates: Candidates, reference: Reference) -> Runner:
    """Return what runs TVM's own build once, or only tells the time of a hopeless one."""
    from runtime_ext.execution.bound_model import bind_library

    ours, seconds = candidates.schedules["sequential"].latency, job.own.seconds
    if seconds is not None and seconds > _HOPELESS * ours:
        return lambda: seconds
    return bind_library(job.own.path)(reference.samples[0].inputs).run


def _time_in_a_fresh_process(
    job: Job, candidates: Candidates, reference: Reference, policies: Sequence[str], _: int
) -> Samples:
    from runtime_ext.peers.side_by_side import SideBySide, run_side_by_side

    ours = {policy: job.folder / "programs" / policy for policy in policies if policy != TVM}
    for policy, path in ours.items():
        if not path.exists():
            candidates.built[policy].save(path)
    outcome = run_side_by_side(
        SideBySide(
            ours,
            job.search.lanes,
            rules.CONFIRMATION,
            [policy for policy in policies if policy == TVM],
            tvm=job.own.path,
            precision=reference.precision,
            verified=reference.source is not None,
            own_error=reference.own_error,
        )
    )
    if TVM in outcome.failed:
        raise UserError(f"TVM's own build failed: {outcome.failed[TVM]}")
    return outcome.samples
