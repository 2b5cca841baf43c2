"""What measurements of policies mean: their results, and the one to keep."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tvm_ios.contest.outputs import Errors
from tvm_ios.contest.pairs import PairedRatio, paired_ratio
from tvm_ios.contest.rounds import Samples
from tvm_ios.schedule.schedule import Schedule

#: The name of TVM's own build among runners.
TVM = "tvm"


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """How fast the program of a policy is, and how exact.

    Attributes
    ----------
    policy
        Its name; ``tvm`` is TVM's own default pipeline and virtual machine.
    latency
        Median seconds.
    ratio
        Median of the ratios to the sequential program, run by run.
    stages
        How many; None for ``tvm``.
    max_abs_error, max_rel_error
        Largest difference to the reference over all outputs; relative to the output's largest
        value. None if nothing was compared.
    """

    policy: str
    latency: float
    ratio: float
    stages: int | None
    max_abs_error: float | None
    max_rel_error: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain data, with the latency in milliseconds."""
        data = asdict(self)
        return {"policy": data.pop("policy"), "latency_ms": data.pop("latency") * 1e3, **data}


@dataclass(frozen=True)
class Verdict:
    """What a contest of policies came to.

    Attributes
    ----------
    results
        One row a policy, ``tvm`` first where it ran.
    kept
        The policy to keep.
    confirmed
        Its ratios to ``sequential`` and, where that ran, to ``tvm``, in fresh processes.
    skipped
        Policies without a program here, with a sentence each.
    reference
        Whose outputs all were compared with; None if they were not.
    """

    results: tuple[PolicyResult, ...]
    kept: str
    confirmed: Mapping[str, PairedRatio]
    skipped: Mapping[str, str]
    reference: str | None


def first_with_equal_schedule(schedules: Mapping[str, Schedule]) -> dict[str, str]:
    """For each policy the first one whose program would be the same.

    Parameters
    ----------
    schedules
        As they are lowered: with the latencies of their units, which decide about lanes.
    """
    first: dict[Schedule, str] = {}
    return {policy: first.setdefault(s.content, policy) for policy, s in schedules.items()}


def policy_results(
    stages: Mapping[str, int],
    measured_as: Mapping[str, str],
    samples: Samples,
    errors: Mapping[str, Errors | None],
) -> tuple[PolicyResult, ...]:
    """One row a policy, ``tvm`` first where it ran.

    Parameters
    ----------
    stages
        The number of stages of each policy, in the order of the rows.
    measured_as
        The policy whose program stands for it: policies of equal schedules share one.
    samples, errors
        The samples and the errors of ``tvm``, and of each policy that was measured.
    """
    rows: list[PolicyResult] = []
    for policy in (TVM, *stages) if TVM in samples else stages:
        runner = measured_as.get(policy, policy)
        absolute, relative = errors[runner] or (None, None)
        rows.append(
            PolicyResult(
                policy=policy,
                latency=statistics.median(samples[runner]),
                ratio=ratio_of(samples, runner, "sequential").median,
                stages=stages.get(policy),
                max_abs_error=absolute,
                max_rel_error=relative,
            )
        )
    return tuple(rows)


def most_promising(results: Sequence[PolicyResult]) -> str:
    """The policy that was fastest; ``sequential``, if it is among them, where none was faster."""
    ours = [row for row in results if row.policy != TVM]
    return min(ours, key=lambda row: (row.ratio, row.policy != "sequential")).policy


def kept_policy(
    best: str, contests: Sequence[Samples], may_keep_sequential: bool = True
) -> tuple[str, dict[str, PairedRatio]]:
    """The policy to keep, and its ratios to ``sequential`` and ``tvm``.

    Equal is not faster: ``best`` is kept only if the whole interval of its ratio to
    ``sequential`` lies below one, and if it was faster in each contest: where a process's memory
    happens to lie is worth a percent, which no number of runs in one process shows.

    Parameters
    ----------
    best
        The policy that may be kept.
    contests
        Samples of each process; ``tvm`` is in at most one.
    may_keep_sequential
        If not, ``best`` is kept.
    """
    faster = faster_in_each(best, "sequential", contests)
    faster = faster and ratio_of_all(contests, best, "sequential").high < 1
    kept = best if faster or not may_keep_sequential else "sequential"
    ratios = {"sequential": ratio_of_all(contests, kept, "sequential")}
    for samples in contests:
        if TVM in samples:
            ratios[TVM] = ratio_of(samples, kept, TVM)
    return kept, ratios


def faster_in_each(first: str, second: str, contests: Sequence[Samples]) -> bool:
    """Whether a runner was faster than another in all contests: a single one decides against it."""
    return all(ratio_of(samples, first, second).median < 1 for samples in contests)


def pooled(contests: Sequence[Samples]) -> Samples:
    """The samples of all contests, one after another."""
    names = dict.fromkeys(name for samples in contests for name in samples)
    return {name: [s for c in contests for s in c.get(name, ())] for name in names}


def ratio_of(samples: Samples, first: str, second: str) -> PairedRatio:
    """The ratio of two runners of a contest; a slow or beaten one has the first rounds only."""
    return ratio_of_all([samples], first, second)


def ratio_of_all(contests: Sequence[Samples], first: str, second: str) -> PairedRatio:
    """The ratio of two runners, from the pairs of all contests."""
    pairs = [pair for each in contests for pair in zip(each[first], each[second], strict=False)]
    return paired_ratio(*zip(*pairs, strict=True))
