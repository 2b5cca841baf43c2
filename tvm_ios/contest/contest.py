"""Hold a contest of policies: verify their programs, find the fastest, and confirm that it is."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, Protocol

from tvm_ios.clock import Clock
from tvm_ios.contest import rules
from tvm_ios.contest.outputs import Errors, Reference, largest_errors, verify_outputs
from tvm_ios.contest.pairs import PairedRatio
from tvm_ios.contest.rounds import Runner, Samples, run_in_turn
from tvm_ios.contest.verdict import (
    TVM,
    PolicyResult,
    Verdict,
    faster_in_each,
    first_with_equal_schedule,
    kept_policy,
    most_promising,
    policy_results,
    ratio_of,
)
from tvm_ios.errors import UnfusedError
from tvm_ios.files.array_files import Array
from tvm_ios.progress import Progress
from tvm_ios.schedule.schedule import Schedule

_LOGGER = logging.getLogger(__name__)
#: The share of the remaining time that is spent on finding the most promising program.
_SELECTING = 0.4


class AnySession(Protocol):
    """A loaded program with its memory, of any backend."""

    def run(self, /, **inputs: Any) -> Any:
        """Run once; inputs set before stay."""
        ...

    def get_output(self, which: int, /) -> Array:
        """Return a copy of an output of the last run."""
        ...

    def close(self) -> None:
        """Release its memory and threads."""
        ...


#: Runs programs in turn in a fresh process by the rules ``CONFIRMATION``; takes their policies in
#: the order in which to load them (``tvm`` may be the last), and the number of the process.
TimeElsewhere = Callable[[Sequence[str], int], Samples]


def hold_contest(
    schedules: Mapping[str, Schedule],
    open_session: Callable[[str], AnySession],
    reference: Reference,
    time_elsewhere: TimeElsewhere,
    progress: Progress,
    *,
    tvm: Runner | None = None,
    allowed: Collection[str] | None = None,
    clock: Clock | None = None,
) -> Verdict:
    """Verify programs of policies, time them in turn, and decide which one to keep.

    Programs first run in this process; then the fastest runs beside the sequential one in three
    fresh processes. It is kept only if it is faster in each and the whole 95 % interval of the
    ratio of all pairs lies below one. If the sequential one is the fastest, nothing is confirmed.
    Raise VerificationError if a program's outputs differ from the reference by more than rounding.

    ``schedules`` are as they are lowered, with ``sequential`` among them; policies of equal ones
    share a program. ``time_elsewhere`` runs some of the programs in a fresh process. ``tvm`` runs
    TVM's own build beside them, in the first fresh process too if it may be faster. Only policies
    of ``allowed`` (by default all) may be kept. When the time of ``clock`` is over, little is
    measured, and an unconfirmed policy is not kept.
    """
    measured_as = first_with_equal_schedule(schedules)
    clock = clock or Clock()
    with ExitStack() as opened:
        sessions: dict[str, AnySession] = {}
        errors: dict[str, Errors | None] = {TVM: reference.tvm_errors}
        skipped: dict[str, str] = {}
        different = list(dict.fromkeys(measured_as.values()))
        for done, policy in enumerate(different):
            progress("verifying", done, len(different))
            try:
                session = opened.enter_context(closing(open_session(policy)))
            except UnfusedError as error:
                skipped |= {p: str(error) for p, first in measured_as.items() if first == policy}
                continue
            sessions[policy] = session
            errors[policy] = verified(policy, session, reference)
            _LOGGER.info("verified %s against %s", policy, reference.source or "nothing")
        progress("verifying", len(different), len(different))
        clock.lap("verify")
        runners = {} if tvm is None else {TVM: tvm}
        runners |= {policy: session.run for policy, session in sessions.items()}
        limits = rules.SELECTION.within(clock.left * _SELECTING)
        samples = run_in_turn(runners, limits, lambda n: progress("measuring", n, limits.rounds))
    clock.lap("measure")
    built = {policy: first for policy, first in measured_as.items() if policy not in skipped}
    stages = {policy: len(schedules[policy].stages) for policy in built}
    results = policy_results(stages, built, samples, errors)
    rows = [row for row in results if allowed is None or row.policy in allowed]
    for row in results:
        _LOGGER.info("timed %s: median %.3f ms", row.policy, row.latency * 1e3)
    kept, confirmed = _confirmed(rows, samples, measured_as, time_elsewhere, progress, clock)
    for other, ratio in confirmed.items():
        _LOGGER.info(
            "confirmed to %s: %.3f (%.3f to %.3f)", other, ratio.median, ratio.low, ratio.high
        )
    _LOGGER.info("kept %s", kept)
    clock.lap("confirm")
    return Verdict(results, kept, confirmed, skipped, reference.source)


def verified(policy: str, session: AnySession, reference: Reference) -> Errors | None:
    """Return the errors of a program on all samples; None if nothing is compared.

    The session then has the inputs of the first sample. Raise VerificationError if an error is more
    than rounding.
    """
    errors: list[Errors] = []
    for sample in reversed(reference.samples):
        session.run(**sample.inputs)
        if reference.source is not None:
            outputs = [session.get_output(place) for place in range(len(sample.outputs))]
            errors.append(verify_outputs(policy, outputs, sample, reference))
    return largest_errors(errors) if errors else None


def _confirmed(
    results: Sequence[PolicyResult],
    samples: Samples,
    measured_as: Mapping[str, str],
    time_elsewhere: TimeElsewhere,
    progress: Progress,
    clock: Clock | None = None,
) -> tuple[str, dict[str, PairedRatio]]:
    """Return the policy to keep, and its ratios to ``sequential`` and ``tvm``.

    They come from fresh processes, for questions that this process's samples leave open: none if
    the sequential program is the fastest, and TVM's own build not if it is certainly slower.
    """
    clock = clock or Clock()
    best = most_promising(results)
    may_keep_sequential = "sequential" in {row.policy for row in results}
    if clock.left <= 0 and may_keep_sequential:
        best = "sequential"
    policies = list(dict.fromkeys(("sequential", best)))
    # Few pairs give no 95 % interval; but a runner has few only if it is three times as slow.
    compared = TVM in samples
    tvm = () if not compared or ratio_of(samples, measured_as[best], TVM).high < 1 else (TVM,)
    contests: list[Samples] = []
    processes = rules.CONFIRMING_PROCESSES if len(policies) > 1 else len(tvm)
    processes = 0 if clock.left <= 0 else processes
    for number in range(processes):
        progress("confirming", number, processes)
        # Alternate the order: a program that is loaded first gets other memory addresses.
        order = policies[::-1] if number % 2 else policies
        contests.append(time_elsewhere((*order, *(tvm if number == 0 else ())), number))
        if may_keep_sequential and not faster_in_each(best, "sequential", contests):
            break
    progress("confirming", processes, processes)
    # Without fresh processes, the samples of this one decide.
    kept, ratios = kept_policy(best, contests or [samples], may_keep_sequential)
    if compared and TVM not in ratios:
        ratios[TVM] = ratio_of(samples, measured_as[kept], TVM)
    return kept, ratios
