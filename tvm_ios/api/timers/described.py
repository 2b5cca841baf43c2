"""Compare programs by described or recorded costs, without timing anything."""

from __future__ import annotations

import platform
from collections.abc import Collection
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.api.candidates import Candidates
from tvm_ios.api.reference import reference_for
from tvm_ios.api.timers.timer import Timed
from tvm_ios.contest.contest import verified
from tvm_ios.contest.outputs import Errors, Reference, Verify
from tvm_ios.contest.verdict import PolicyResult, Verdict

if TYPE_CHECKING:
    from relay_passes.search_options import SearchOptions
    from tvm_ios.api.job import Job
    from tvm_ios.search import Search


class DescribedTimer:
    """A timer that uses the costs of a description or a log of a machine that is not here."""

    place = None

    def search(self, job: Job) -> Search:
        """Return the search by these costs."""
        return search_by(job)

    def time(self, job: Job, candidates: Candidates, allowed: Collection[str]) -> Timed:
        """Choose, among policies of ``allowed``, the program of least expected time.

        It is verified if this machine's CPU runs it; else nothing is compared.
        """
        expected = {policy: s.latency for policy, s in candidates.schedules.items()}
        kept = min((p for p in candidates.built if p in allowed), key=lambda p: expected[p])
        reference, errors = self._verified(job, candidates, kept)
        sequential = expected.get("sequential")
        rows = tuple(
            PolicyResult(
                policy=policy,
                latency=seconds,
                ratio=seconds / sequential if sequential else None,
                stages=len(candidates.schedules[policy].stages),
                max_abs_error=errors[0] if errors and policy == kept else None,
                max_rel_error=errors[1] if errors and policy == kept else None,
            )
            for policy, seconds in expected.items()
        )
        return Timed(candidates, Verdict(rows, kept, {}, {}, reference.source), reference)

    def _verified(
        self, job: Job, candidates: Candidates, policy: str
    ) -> tuple[Reference, Errors | None]:
        from runtime_ext.verification.reference import judged

        program = candidates.built[policy]
        runs = job.options.verify is not Verify.off and _runs_here(job.search)
        reference = reference_for(job, program, on_cpu=True, runs=runs)
        if not runs:
            return reference, None
        with closing(program.session()) as session:
            attempt = partial(verified, policy, session)
            return judged(job.loaded.original, reference, attempt)


def search_by(job: Job) -> Search:
    """Return the search by the costs that the options name: a log, or a description."""
    cost = job.options.cost
    assert cost is not None, "the options name one"
    if cost.endswith(".jsonl"):
        return job.module.recorded(Path(cost))
    return job.module.described(cost)


def _runs_here(options: SearchOptions) -> bool:
    """Return whether this machine's CPU runs the programs."""
    from runtime_ext.machine.cpu_features import missing_features, required_features
    from runtime_ext.machine.this_machine import available_lanes
    from runtime_ext.target_architecture import cuda_arch, machine_of

    target = options.resolved_target
    if cuda_arch(target) is not None or machine_of(target) != platform.machine():
        return False
    return options.lanes <= available_lanes() and not missing_features(required_features(target))
