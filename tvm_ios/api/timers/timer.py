"""The interface of timers, which verify and time the programs of a model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from tvm_ios.api.candidates import Candidates
from tvm_ios.contest.verdict import TVM, Verdict

if TYPE_CHECKING:
    from tvm_ios.api.job import Job
    from tvm_ios.contest.outputs import Reference
    from tvm_ios.search import Search


@dataclass(frozen=True)
class Timed:
    """Programs that were verified and timed, and the policy to keep.

    ``candidates`` are the programs that stayed in the contest, ``verdict`` has their times and the
    policy to keep, ``reference`` the outputs that they must compute. ``notes`` are sentences for
    the user; ``not_verified`` says why nothing was compared, and is empty if it was.
    """

    candidates: Candidates
    verdict: Verdict
    reference: Reference
    notes: tuple[str, ...] = ()
    not_verified: str = ""

    def without_tvm(self, sentence: str) -> Timed:
        """Return a copy that says in a sentence why TVM's own build was not compared."""
        skipped = {**self.verdict.skipped, TVM: sentence}
        return replace(self, verdict=replace(self.verdict, skipped=skipped))


class Timer(Protocol):
    """A machine, a device or a description by which a model's programs are timed and compared."""

    @property
    def place(self) -> str | None:
        """Where programs are timed; None for this machine."""
        ...

    def search(self, job: Job) -> Search:
        """Return the search of the job's schedules by this timer's costs."""
        ...

    def time(self, job: Job, candidates: Candidates, allowed: Collection[str]) -> Timed:
        """Verify and time programs; only policies of ``allowed`` may be kept.

        Raises
        ------
        VerificationError
            If a program computes something else.
        """
        ...
