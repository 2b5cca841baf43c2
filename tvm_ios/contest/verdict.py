"""What measurements and comparisons of policies mean: results, errors, the best one."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from tvm_ios.contest.paired import PairedRatio, paired_ratio
from tvm_ios.errors import UserError
from tvm_ios.schedule.schedule import Schedule

Array = np.ndarray[Any, Any]
#: Seconds of the runs of each runner of a contest.
Samples = Mapping[str, Sequence[float]]

#: Above this a result is not rounding: the executable is refused.
LARGEST_ERROR = 1e-3
#: The same for what GPUs compute in: ten bits of fraction are 5e-4 of each number.
LARGEST_ERRORS: Mapping[str, float] = MappingProxyType(
    {"float32": LARGEST_ERROR, "tf32": 2e-2, "float16": 2e-2}
)


class VerificationError(UserError):
    """A scheduled model that does not compute what the unscheduled one does."""


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """What a policy came to.

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
        Largest difference to ``tvm`` over all outputs; relative to the output's largest value.
    """

    policy: str
    latency: float
    ratio: float
    stages: int | None
    max_abs_error: float
    max_rel_error: float


def compare_outputs(
    policy: str,
    found: Sequence[Array],
    reference: Sequence[Array],
    precision: str = "float32",
) -> tuple[float, float]:
    """Largest absolute and relative error of a policy's outputs.

    Parameters
    ----------
    policy
        For the message.
    found, reference
        Outputs; those of TVM in float32.
    precision
        One of :data:`LARGEST_ERRORS`.

    Raises
    ------
    VerificationError
        If the relative one is not that of rounding.
    """
    absolute, relative = output_errors(found, reference)
    if not relative <= LARGEST_ERRORS[precision]:
        raise VerificationError(
            f"the {policy} schedule differs from TVM's own result by {relative:.1e} of the "
            "largest output; please report this model"
        )
    return absolute, relative


def output_errors(found: Sequence[Array], reference: Sequence[Array]) -> tuple[float, float]:
    """Largest absolute error, and largest error relative to an output's largest value.

    Infinities and what is no number agree with the same in the same places, as masks and
    logarithms make them; elsewhere they, and other shapes, are an infinite error.
    """
    if [a.shape for a in found] != [b.shape for b in reference]:
        return float("inf"), float("inf")
    absolute = relative = 0.0
    for ours, theirs in zip(found, reference, strict=True):
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
        finite = np.isfinite(theirs)
        if not np.array_equal(np.where(finite, 0, ours), np.where(finite, 0, theirs), True):
            return float("inf"), float("inf")
        difference = np.abs(ours[finite] - theirs[finite])
        worst = float(np.max(np.where(np.isfinite(difference), difference, np.inf), initial=0.0))
        scale = float(np.max(np.abs(theirs[finite]), initial=0.0)) or 1.0
        absolute, relative = max(absolute, worst), max(relative, worst / scale)
    return absolute, relative


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
    errors: Mapping[str, tuple[float, float]],
) -> tuple[PolicyResult, ...]:
    """One row a policy, ``tvm`` first where it ran.

    Parameters
    ----------
    stages
        Of each policy, in the order of the rows.
    measured_as
        The policy whose program stands for it: policies of equal schedules share one.
    samples, errors
        Of ``tvm`` and of each policy that was measured.
    """
    rows: list[PolicyResult] = []
    for policy in ("tvm", *stages) if "tvm" in samples else stages:
        runner = measured_as.get(policy, policy)
        rows.append(
            PolicyResult(
                policy=policy,
                latency=statistics.median(samples[runner]),
                ratio=ratio_of(samples, runner, "sequential").median,
                stages=stages.get(policy),
                max_abs_error=errors[runner][0],
                max_rel_error=errors[runner][1],
            )
        )
    return tuple(rows)


def most_promising(results: Sequence[PolicyResult]) -> str:
    """The policy that was fastest; ``sequential``, if it is among them, where none was faster."""
    ours = [row for row in results if row.policy != "tvm"]
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
    names = dict.fromkeys(name for samples in contests for name in samples)
    pooled = {name: [s for c in contests for s in c.get(name, ())] for name in names}
    faster = all(ratio_of(samples, best, "sequential").median < 1 for samples in contests)
    faster = faster and ratio_of(pooled, best, "sequential").high < 1
    kept = best if faster or not may_keep_sequential else "sequential"
    ratios = {"sequential": ratio_of(pooled, kept, "sequential")}
    for samples in contests:
        if "tvm" in samples:
            ratios["tvm"] = ratio_of(samples, kept, "tvm")
    return kept, ratios


def ratio_of(samples: Samples, first: str, second: str) -> PairedRatio:
    """Of two runners of a contest, in which a slow one has the first rounds only."""
    pairs = min(len(samples[first]), len(samples[second]))
    return paired_ratio(samples[first][:pairs], samples[second][:pairs])
