"""The contest of a model's policies on a machine of a fleet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from tvm_ios.api.candidates import Candidates
from tvm_ios.clock import Clock
from tvm_ios.contest import rules
from tvm_ios.contest.contest import hold_contest
from tvm_ios.contest.outputs import Reference
from tvm_ios.contest.rounds import Samples, run_in_turn
from tvm_ios.contest.verdict import Verdict, first_with_equal_schedule
from tvm_ios.files.atomic import temporary_folder
from tvm_ios.progress import Progress

if TYPE_CHECKING:
    from runtime_ext.fleet.device import FleetDevice
    from runtime_ext.fleet.machine import Machine


def hold_contest_on_fleet(
    candidates: Candidates,
    fleet: FleetDevice,
    reference: Reference,
    allowed: Collection[str],
    progress: Progress,
    clock: Clock,
) -> Verdict:
    """Verify and time programs on one machine, all of them on the same, in processes of its own.

    A connection to a server is a process there: the fastest program is confirmed in three fresh
    ones. If the machine is lost the contest is held on another.

    Parameters
    ----------
    candidates
        The policies' programs.
    fleet
        The machines.
    reference, allowed, progress, clock
        As of :func:`tvm_ios.contest.contest.hold_contest`.

    Raises
    ------
    VerificationError
        If a program computes something else there.
    UntimedError
        If no machine is left, or three were lost.
    """
    from runtime_ext.fleet.program_session import ProgramSession

    with temporary_folder() as folder:
        for policy in set(first_with_equal_schedule(candidates.schedules).values()):
            candidates.built[policy].save(folder / policy)

        def contest(machine: Machine) -> Verdict:
            def time_elsewhere(policies: Sequence[str], _: int) -> Samples:
                fleet.renew(machine)
                with ExitStack() as opened:
                    sessions = {
                        policy: opened.enter_context(
                            closing(ProgramSession(machine, folder / policy))
                        )
                        for policy in policies
                    }
                    for session in sessions.values():
                        session.run(**reference.samples[0].inputs)
                    runners = {policy: session.run for policy, session in sessions.items()}
                    return run_in_turn(runners, rules.CONFIRMATION)

            return hold_contest(
                candidates.schedules,
                lambda policy: ProgramSession(machine, folder / policy),
                reference,
                time_elsewhere,
                progress,
                allowed=allowed,
                clock=clock,
            )

        return fleet.on_a_machine(contest)
