"""Time programs on one machine of a fleet, all of them on the same."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_ios.api.candidates import Candidates
from tvm_ios.api.timers.local import time_in_contest
from tvm_ios.api.timers.timer import Timed
from tvm_ios.contest import rules
from tvm_ios.contest.contest import hold_contest
from tvm_ios.contest.outputs import Reference
from tvm_ios.contest.rounds import Samples, run_in_turn
from tvm_ios.contest.verdict import Verdict, first_with_equal_schedule

if TYPE_CHECKING:
    from runtime_ext.fleet.device import FleetDevice
    from runtime_ext.fleet.machine import Machine
    from tvm_ios.api.job import Job
    from tvm_ios.search import Search


class FleetTimer:
    """A timer that runs programs on machines of one kind through TVM's RPC."""

    def __init__(self, fleet: FleetDevice) -> None:
        self._fleet = fleet
        self.place: str | None = fleet.name

    def search(self, job: Job) -> Search:
        """Return the search by stage times measured on the fleet."""
        return job.module.search

    def time(self, job: Job, candidates: Candidates, allowed: Collection[str]) -> Timed:
        """Verify and time programs on one machine, the fastest in three fresh processes there.

        Each connection to the machine's server is a fresh process. If the machine is lost, the
        contest is held again on another. Raise UntimedError if no machine is left, or three were
        lost.
        """
        timed = time_in_contest(job, candidates, partial(self._contest, job, allowed))
        sentence = "TVM's own build was not compared with: programs were timed on a fleet"
        return timed.without_tvm(sentence)

    def _contest(
        self,
        job: Job,
        allowed: Collection[str],
        candidates: Candidates,
        _: bool,
        reference: Reference,
    ) -> Verdict:
        from runtime_ext.fleet.program_session import ProgramSession

        folder = job.folder / "programs"
        for policy in set(first_with_equal_schedule(candidates.schedules).values()):
            candidates.built[policy].save(folder / policy)

        def contest(machine: Machine) -> Verdict:
            return hold_contest(
                candidates.schedules,
                lambda policy: ProgramSession(machine, folder / policy),
                reference,
                partial(self._time_in_fresh_processes, machine, folder, reference),
                job.report,
                allowed=allowed,
                clock=job.clock,
            )

        return self._fleet.on_a_machine(contest)

    def _time_in_fresh_processes(
        self, machine: Machine, folder: Path, reference: Reference, policies: Sequence[str], _: int
    ) -> Samples:
        from runtime_ext.fleet.program_session import ProgramSession

        self._fleet.renew(machine)
        with ExitStack() as opened:
            sessions = {
                policy: opened.enter_context(closing(ProgramSession(machine, folder / policy)))
                for policy in policies
            }
            for session in sessions.values():
                session.run(**reference.samples[0].inputs)
            runners = {policy: session.run for policy, session in sessions.items()}
            return run_in_turn(runners, rules.CONFIRMATION)
