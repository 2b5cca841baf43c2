"""Turn measurements of policies into results, and choose the policy to keep."""

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
    """The speed and the error of a policy's program."""

    #: Its name; ``tvm`` is TVM's own default pipeline and virtual machine.
    policy: str
    #: Median seconds.
    latency: float
    #: Median of the ratios to the sequential program, run by run; None if that is not compared.
    ratio: float | None
    #: Number of stages; None for ``tvm``.
    stages: int | None
    #: Largest difference to the reference over all outputs; relative to the output's largest value.
    #: None if nothing was compared.
    max_abs_error: float | None
    max_rel_error: float | None
    #: Number of launches of a program that a device of another package timed, else None.
    launches: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data, with the latency in milliseconds."""
        data = asdict(self)
        if self.launches is None:
            del data["launches"]
        return {"policy": data.pop("policy"), "latency_ms": data.pop("latency") * 1e3, **data}


@dataclass(frozen=True)
class Verdict:
    """The result of a contest of policies."""

    #: One row a policy, ``tvm`` first where it ran.
    results: tuple[PolicyResult, ...]
    #: The policy to keep.
    kept: str
    #: Its ratios to ``sequential`` and, where that ran, to ``tvm``, in fresh processes.
    confirmed: Mapping[str, PairedRatio]
    #: Policies without a program here, with a sentence each.
    skipped: Mapping[str, str]
    #: Name of the framework whose outputs all were compared with; None if nothing was compared.
    reference: str | None

    @property
    def latency(self) -> float:
        """Median seconds of the kept policy's program."""
        return next(row.latency for row in self.results if row.policy == self.kept)


def first_with_equal_schedule(schedules: Mapping[str, Schedule]) -> dict[str, str]:
    """Return, for each policy, the first one whose program would be the same.

    Schedules are as they are lowered: with the latencies of their units, which decide about lanes.
    """
    first: dict[Schedule, str] = {}
    return {policy: first.setdefault(s.content, policy) for policy, s in schedules.items()}


def policy_results(
    stages: Mapping[str, int],
    measured_as: Mapping[str, str],
    samples: Samples,
    errors: Mapping[str, Errors | None],
) -> tuple[PolicyResult, ...]:
    """Return one row a policy, ``tvm`` first if it ran, in the order of ``stages``.

    ``measured_as`` has the policy whose program each one shares, ``samples`` and ``errors`` the
    measurements of ``tvm`` and of these programs.
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
    """Return the policy of the least ratio; ``sequential`` wins ties if it is among them."""
    ours = [(row.ratio, row) for row in results if row.policy != TVM and row.ratio is not None]
    return min(ours, key=lambda pair: (pair[0], pair[1].policy != "sequential"))[1].policy


def kept_policy(
    best: str, contests: Sequence[Samples], may_keep_sequential: bool = True
) -> tuple[str, dict[str, PairedRatio]]:
    """Return the policy to keep, and its ratios to ``sequential`` and ``tvm``.

    Equal is not faster: ``best`` is kept only if the whole interval of its ratio to ``sequential``
    lies below one, and if it was faster in each contest: memory addresses differ between processes
    and are worth a percent, which no number of runs in one process shows. Without
    ``may_keep_sequential`` it is kept in any case. ``contests`` are the samples of each process;
    ``tvm`` is in at most one.
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
    """Return whether a runner was faster than another, by the median, in all contests."""
    return all(ratio_of(samples, first, second).median < 1 for samples in contests)


def pooled(contests: Sequence[Samples]) -> Samples:
    """Return the samples of all contests, one after another."""
    names = dict.fromkeys(name for samples in contests for name in samples)
    return {name: [s for c in contests for s in c.get(name, ())] for name in names}


def ratio_of(samples: Samples, first: str, second: str) -> PairedRatio:
    """Return the ratio of two runners; a slow or stopped one has only the first rounds."""
    return ratio_of_all([samples], first, second)


def ratio_of_all(contests: Sequence[Samples], first: str, second: str) -> PairedRatio:
    """Return the ratio of two runners, from the pairs of all contests."""
    pairs = [pair for each in contests for pair in zip(each[first], each[second], strict=False)]
    return paired_ratio(*zip(*pairs, strict=True))
