"""Comparing runners fairly on a noisy machine: pairs of runs, medians, intervals."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache

#: The median lies between the least and the greatest of this many samples with more than 95 %.
FEWEST_FOR_AN_INTERVAL = 6
#: The error probability of each test that may end a contest early, and the fewest samples that can
#: pass it.
_EARLY = 0.005
FEWEST_TO_DECIDE = 8


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """The ratio of one runner's time to another's, from runs taken in pairs."""

    #: Of the ratios pair by pair; below 1 the first runner is faster.
    median: float
    #: A 95 % confidence interval of that median.
    low: float
    high: float
    #: Number of pairs.
    pairs: int

    def to_json(self) -> dict[str, float]:
        """Return plain data, with the median as ``ratio`` too."""
        return {"ratio": self.median, **asdict(self)}


def paired_ratio(first: Sequence[float], second: Sequence[float]) -> PairedRatio:
    """Compare two runners whose i-th samples were taken one after the other.

    The interval is that of the sign test (order statistics of the ratios): it assumes nothing about
    the distribution of the noise. Raise ValueError if the numbers of samples differ or are zero.
    """
    if len(first) != len(second) or not first:
        raise ValueError(f"pairs need equal numbers of samples, not {len(first)}, {len(second)}")
    ratios = sorted(a / b for a, b in zip(first, second, strict=True))
    rank = _lower_rank(len(ratios))
    return PairedRatio(statistics.median(ratios), ratios[rank], ratios[-1 - rank], len(ratios))


def ratio_over_processes(ratios: Sequence[PairedRatio]) -> PairedRatio:
    """Combine the ratios of several fresh processes into one.

    The memory addresses that a program happens to get in a process are worth a percent or two,
    which no number of runs there shows: a process is one sample. The interval is that of the sign
    test of the processes' medians; for fewer than six there is none of 95 %, and it spans their own
    intervals. Raise ValueError if there is no ratio.
    """
    medians = sorted(ratio.median for ratio in ratios)
    if not medians:
        raise ValueError("there is no ratio of any process")
    pairs = sum(ratio.pairs for ratio in ratios)
    if len(medians) < FEWEST_FOR_AN_INTERVAL:
        low, high = min(r.low for r in ratios), max(r.high for r in ratios)
    else:
        rank = _lower_rank(len(medians))
        low, high = medians[rank], medians[-1 - rank]
    return PairedRatio(statistics.median(medians), low, high, pairs)


def surely_above(ratios: Sequence[float], bound: float) -> bool:
    """Return whether the median of ratios is above a bound, by a sign test that may be repeated.

    Each test is wrong in 0.5 % of all cases; testing after each of 40 pairs of two equal runners
    calls one of them slower in 3 %.
    """
    below = sum(ratio <= bound for ratio in ratios)
    return _binomial_tail(len(ratios), below) <= _EARLY


def _lower_rank(count: int) -> int:
    """Return the largest k with P(Binomial(count, 1/2) <= k) <= 2.5 %; 0 if there is none."""
    ranks = (k for k in range(count // 2) if _binomial_tail(count, k) <= 0.025)
    return max(ranks, default=0)


@cache
def _binomial_tail(count: int, most: int) -> float:
    """Return P(Binomial(count, 1/2) <= most)."""
    return sum(math.comb(count, k) for k in range(most + 1)) / 2.0**count
