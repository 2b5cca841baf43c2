"""Intervals of paired ratios: the ranks of the sign test, and how often they cover."""

from __future__ import annotations

import math
import statistics
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refused
from tvm_ios.contest.pairs import PairedRatio, paired_ratio, ratio_over_processes

seconds = st.floats(1e-6, 1e3)
pairs = st.lists(st.tuples(seconds, seconds), min_size=1, max_size=60)


@given(pairs)
def test_median_and_interval_of_the_ratios(samples: list[tuple[float, float]]) -> None:
    ratio = paired_ratio(*zip(*samples, strict=True))
    ratios = sorted(a / b for a, b in samples)
    assert ratio.pairs == len(samples)
    assert ratio.median == statistics.median(ratios)
    assert ratio.low in ratios
    assert ratio.high in ratios
    assert ratio.low <= ratio.median <= ratio.high


@given(pairs, st.randoms(use_true_random=False))
def test_the_order_of_pairs_is_of_no_account(
    samples: list[tuple[float, float]], random: object
) -> None:
    shuffled = list(samples)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert paired_ratio(*zip(*shuffled, strict=True)) == paired_ratio(*zip(*samples, strict=True))


def test_exchanging_the_runners_inverts_the_ratios() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.uniform(1, 2, (2, 31)).tolist()
    there, back = paired_ratio(first, second), paired_ratio(second, first)
    assert back.median == pytest.approx(1 / there.median)
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low))


def test_twenty_pairs_use_the_sixth_and_fifteenth_ratio() -> None:
    """As in any table of the sign test's intervals."""
    ratio = paired_ratio([float(i) for i in range(20, 0, -1)], [1.0] * 20)
    assert (ratio.low, ratio.median, ratio.high) == (6, 10.5, 15)


@pytest.mark.parametrize(
    ("count", "lowest"), [(1, 1), (5, 1), (6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (60, 22)]
)
def test_ranks_of_published_tables(count: int, lowest: int) -> None:
    ratio = paired_ratio([float(i) for i in range(1, count + 1)], [1.0] * count)
    assert (ratio.low, ratio.high) == (lowest, count + 1 - lowest)


@pytest.mark.parametrize("count", range(6, 61))
def test_each_tail_holds_at_most_a_fortieth_and_the_next_rank_more(count: int) -> None:
    ratio = paired_ratio([float(i) for i in range(1, count + 1)], [1.0] * count)
    below = int(ratio.low)
    tails = [sum(math.comb(count, k) for k in range(rank)) / 2**count for rank in range(below + 2)]
    assert tails[below] <= 0.025 < tails[below + 1]
    assert all(a <= b for a, b in pairwise(tails))


def test_covers_the_true_median() -> None:
    """At least 95 of 100 intervals hold the median of a skewed distribution."""
    rng = np.random.default_rng(7)
    ratios = rng.lognormal(mean=math.log(0.9), sigma=0.3, size=(4000, 20))
    hits = sum(
        ratio.low <= 0.9 <= ratio.high
        for ratio in (paired_ratio(row.tolist(), [1.0] * 20) for row in ratios)
    )
    # Exactly 0.9586 is expected; three standard errors of 4000 trials are 0.0094.
    assert 0.949 <= hits / 4000 <= 0.969


def of_equal_programs(rng: np.random.Generator, processes: int) -> list[PairedRatio]:
    """Their ratios in processes where places in memory are worth two percent."""
    ratios = 1 + 0.02 * rng.standard_normal((processes, 1)) + 0.01 * rng.random((processes, 30))
    return [paired_ratio((row - 0.005).tolist(), [1.0] * 30) for row in ratios]


def test_an_interval_over_processes_covers_what_one_process_hides() -> None:
    rng = np.random.default_rng(7)
    drawn = [of_equal_programs(rng, 6) for _ in range(2000)]
    over = [ratio_over_processes(ratios) for ratios in drawn]
    hits = sum(ratio.low <= 1 <= ratio.high for ratio in over)
    # Exactly 0.96875 is expected; three standard errors are 0.0117.
    assert 0.957 <= hits / 2000 <= 0.981
    assert sum(ratios[0].low <= 1 <= ratios[0].high for ratios in drawn) / 2000 < 0.3


@given(st.lists(pairs, min_size=1, max_size=9))
def test_the_ratio_over_processes(samples: list[list[tuple[float, float]]]) -> None:
    """It is within its interval, which is within those of the processes together."""
    ratios = [paired_ratio(*zip(*pairs, strict=True)) for pairs in samples]
    over = ratio_over_processes(ratios)
    assert over.low <= over.median <= over.high
    assert over.low >= min(ratio.low for ratio in ratios)
    assert over.high <= max(ratio.high for ratio in ratios)
    assert over.pairs == sum(ratio.pairs for ratio in ratios)
    if len(ratios) == 1:
        assert over == ratios[0]


def test_a_ratio_over_no_process_is_refused() -> None:
    with refused(ValueError, "process"):
        ratio_over_processes([])


@pytest.mark.parametrize(("first", "second"), [([], []), ([1.0], []), ([1.0, 2.0], [1.0])])
def test_unequal_or_empty_samples_are_refused(first: list[float], second: list[float]) -> None:
    with refused(ValueError, len(first), len(second)):
        paired_ratio(first, second)
