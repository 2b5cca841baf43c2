"""Comparing runners fairly on a noisy machine: pairs of runs, medians, intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """How much slower one runner is than another, from runs taken in pairs.

    Attributes
    ----------
    median
        Of the ratios pair by pair; below 1 the first runner is faster.
    low, high
        A 95 % confidence interval of that median.
    pairs
        How many.
    """

    median: float
    low: float
    high: float
    pairs: int


def paired_ratio(first: Sequence[float], second: Sequence[float]) -> PairedRatio:
    """Compare two runners whose i-th samples were taken one after the other.

    The interval is that of the sign test (order statistics of the ratios): it assumes nothing
    about the distribution of the noise.

    Raises
    ------
    ValueError
        If the runners have different numbers of samples, or none.
    """
    if len(first) != len(second) or not first:
        raise ValueError(f"pairs need equal numbers of samples, not {len(first)}, {len(second)}")
    ratios = sorted(a / b for a, b in zip(first, second, strict=True))
    rank = _lower_rank(len(ratios))
    return PairedRatio(statistics.median(ratios), ratios[rank], ratios[-1 - rank], len(ratios))


def _lower_rank(count: int) -> int:
    """The largest k with P(Binomial(count, 1/2) <= k) <= 2.5 %; 0 if there is none."""
    tail, rank = 0.0, 0
    for k in range(count // 2):
        tail += math.comb(count, k) / 2.0**count
        if tail > 0.025:
            break
        rank = k
    return rank
