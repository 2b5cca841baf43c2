"""Leave out schedules that are not worth a program, and say in a line how each policy fared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tvm_ios.clock import OutOfTimeError
from tvm_ios.contest.rules import WORTHWHILE
from tvm_ios.contest.verdict import TVM, PolicyResult, Verdict, most_promising
from tvm_ios.policies.policy import Found
from tvm_ios.policies.promise import why_no_program
from tvm_ios.progress import Progress

if TYPE_CHECKING:
    from relay_passes.search_options import SearchOptions
    from tvm_ios.search import Search

#: A search ends after this many stages in a row that gain next to nothing. On four networks none
#: gained more than 0.4 % later, though twice as many stages were measured.
_PATIENCE = 64


def leaving_out_little(options: SearchOptions) -> SearchOptions:
    """Return options with which searches skip gains that are too small to be confirmed.

    Options that ask to measure everything stay as they are, as do those for GPUs, where the time of
    a unit alone is no lower bound: it includes launch overhead that other units hide.
    """
    from runtime_ext.target_architecture import cuda_arch

    budget = options.limits.budget
    if budget.everything or cuda_arch(options.resolved_target) is not None:
        return options
    budget = replace(budget, gap=WORTHWHILE, patience=_PATIENCE)
    limits = replace(options.limits, budget=budget)
    return replace(options, limits=limits)


def not_worth_a_program(
    search: Search, searches: Mapping[str, Found], progress: Progress
) -> dict[str, str]:
    """Return the policies whose schedules are not built, each with half a sentence of reason.

    Nothing is left out if the options of the search allow no gap.
    """
    least = search.limits.budget.gap
    if not least:
        return {}
    costs = search.costs
    reasons: dict[str, str] = {}
    for policy, found in searches.items():
        if policy == "sequential":
            continue
        try:
            if costs.measuring is not None:
                # Units are measured before stages: without time for them there is no stage.
                costs.measuring.bounds(progress)
            reason = found.why_not or why_no_program(
                search.problem, costs, found.schedule, least, progress
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
    """Return a line for each policy: its gain over the sequential program, or why it has none.

    ``reasons`` are those of :func:`not_worth_a_program`, ``refused`` those of policies that found
    no schedule. ``with_log`` says whether TVM's own build used a tuning log.
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
