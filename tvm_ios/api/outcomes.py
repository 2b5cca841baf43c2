"""What became of each policy: which are worth a program, and a line for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tvm_ios.clock import OutOfTimeError
from tvm_ios.contest.rules import WORTHWHILE
from tvm_ios.contest.verdict import TVM, PolicyResult, Verdict, most_promising
from tvm_ios.policies.policy import Found
from tvm_ios.policies.promise import why_no_program
from tvm_ios.progress import Progress

if TYPE_CHECKING:
    from relay_passes.measured_module import MeasuredModule
    from relay_passes.search_options import SearchOptions

#: After so many stages in a row that win next to nothing a search measures no more. Of four
#: networks none won more than 0.4 % later, though twice as many were measured.
_PATIENCE = 64


def leaving_out_little(options: SearchOptions) -> SearchOptions:
    """Options with which searches do not look for gains that are too small to be confirmed.

    Those that measure every stage look for all; and on GPUs what units take alone is no bound, for
    it holds launches that other units hide.
    """
    from runtime_ext.target_architecture import cuda_arch

    budget = options.limits.budget
    if budget.everything or cuda_arch(options.resolved_target) is not None:
        return options
    budget = replace(budget, gap=WORTHWHILE, patience=_PATIENCE)
    limits = replace(options.limits, budget=budget)
    return replace(options, limits=limits)


def not_worth_a_program(
    module: MeasuredModule[Any], searches: Mapping[str, Found], progress: Progress
) -> dict[str, str]:
    """The policies whose schedules are not built, with half a sentence each.

    Parameters
    ----------
    module
        The module that was searched; nothing is left out if its options allow no gap.
    searches
        What each policy has found.
    progress
        Called with (what, done, total).
    """
    least = module.options.limits.budget.gap
    if not least:
        return {}
    costs = module.search.costs
    reasons: dict[str, str] = {}
    for policy, found in searches.items():
        if policy == "sequential":
            continue
        try:
            if costs.measuring is not None:
                # Before stages are measured there has to be time for their units.
                costs.measuring.bounds(progress)
            reason = found.why_not or why_no_program(
                module.problem, costs, found.schedule, least, progress
            )
        except OutOfTimeError as error:
            reason = str(error)
        if reason:
            reasons[policy] = reason
    return reasons


def outcomes(
    verdict: Verdict,
    reasons: Mapping[str, str],
    refused: Mapping[str, str],
    *,
    with_log: bool,
) -> dict[str, str]:
    """For each policy a line: what it gained over one unit after another, or why it did not.

    Parameters
    ----------
    verdict
        Of the contest.
    reasons, refused
        Why others are not in it: of ``not_worth_a_program``; or what they could not find.
    with_log
        Whether TVM's own build had a tuning log, too.
    """
    lines = {row.policy: _outcome(row, verdict) for row in verdict.results}
    if TVM in lines:
        lines[TVM] = "its own build, with the tuning log" if with_log else "its own build, untuned"
    skipped = {policy: reason for policy, reason in verdict.skipped.items() if policy != TVM}
    return {**lines, **skipped, **refused, **reasons}


def _outcome(row: PolicyResult, verdict: Verdict) -> str:
    if row.policy == "sequential":
        return "what the others are compared with"
    if row.ratio is None:
        return ""
    confirmed = verdict.confirmed.get("sequential")
    if row.policy == verdict.kept:
        return f"gained {100 * (1 - (confirmed.median if confirmed else row.ratio)):.1f} %"
    gain = 100 * (1 - row.ratio)
    if gain <= 0:
        return f"lost {-gain:.1f} %"
    fastest, here = most_promising(verdict.results), " here" if confirmed else ""
    if row.policy != fastest:
        return f"gained {gain:.1f} %{here}, {fastest} more"
    return f"gained {gain:.1f} %{here}, not in {'fresh processes' if confirmed else 'every run'}"
