from __future__ import annotations

from itertools import combinations
from math import comb

import pytest
from hypothesis import assume, given

from tests.fast_run import examples
from tests.ios.brute_force import all_endings, all_schedules, groups_of
from tests.random_dags import dags
from tvm_ios.graph.op_graph import bits, mask_of
from tvm_ios.ios.counts import BlockCounts, count_block, width


def descends(predecessors: tuple[int, ...], unit: int, root: int) -> bool:
    return unit == root or any(descends(predecessors, p, root) for p in bits(predecessors[unit]))


def rooted(predecessors: tuple[int, ...], state: int, ending: int) -> bool:
    """Whether every group is one unit and all its descendants inside the state."""
    return all(
        any(
            mask_of(group) == mask_of(u for u in bits(state) if descends(predecessors, u, root))
            for root in group
        )
        for group in groups_of(predecessors, ending)
    )


@given(dags(7))
@examples(60)
def test_connected_equals_brute_force(predecessors: tuple[int, ...]) -> None:
    counts = count_block(predecessors)
    assume(counts.schedules <= 20_000)
    endings = all_endings(predecessors)
    assert counts.states == len(endings)
    assert counts.transitions == sum(map(len, endings.values()))
    everything = (1 << len(predecessors)) - 1
    assert counts.schedules == sum(1 for _ in all_schedules(endings, everything))


@given(dags(7))
@examples(60)
def test_rooted_equals_brute_force(predecessors: tuple[int, ...]) -> None:
    counts = count_block(predecessors, "rooted")
    assume(counts.schedules <= 20_000)
    endings = {
        state: {e for e in every if rooted(predecessors, state, e)}
        for state, every in all_endings(predecessors).items()
    }
    reached = {(1 << len(predecessors)) - 1}
    for state in sorted(endings, reverse=True):
        if state in reached:
            reached |= {state & ~e for e in endings[state]}
    assert counts.states == len(reached)
    assert counts.transitions == sum(len(endings[state]) for state in reached)
    assert counts.schedules == sum(1 for _ in all_schedules(endings, max(reached)))


@given(dags(8))
@examples(60)
def test_width_equals_the_largest_antichain(predecessors: tuple[int, ...]) -> None:
    units = range(len(predecessors))
    largest = max(
        size
        for size in range(1, len(predecessors) + 1)
        for chosen in combinations(units, size)
        if not any(descends(predecessors, v, u) for u, v in combinations(chosen, 2))
    )
    assert width(predecessors) == largest


def test_schedules_are_exact_beyond_machine_words() -> None:
    # Ordered set partitions of independent units: the Fubini numbers.
    fubini = [1]
    for n in range(1, 13):
        binomial, total = 1, 0
        for k in range(1, n + 1):
            binomial = binomial * (n - k + 1) // k
            total += binomial * fubini[n - k]
        fubini.append(total)
    counts = count_block([0] * 12)
    assert counts == BlockCounts(12, 12, 2**12, 3**12 - 2**12, fubini[12])
    chain = count_block([1 << (u - 1) if u else 0 for u in range(70)])
    assert chain == BlockCounts(70, 1, 71, 70 * 71 // 2, 2**69)
    assert chain == count_block([1 << (u - 1) if u else 0 for u in range(70)], "rooted")


@given(dags(8))
@examples(60)
def test_no_block_has_more_transitions_than_the_bound(predecessors: tuple[int, ...]) -> None:
    counts = count_block(predecessors)
    # The bound counts the empty ending of each state, too.
    assert counts.transitions + counts.states <= counts.bound * (1 + 1e-9)


@pytest.mark.parametrize(("paths", "length"), [(1, 9), (3, 3), (5, 2), (9, 1)])
def test_paths_side_by_side_reach_the_bound(paths: int, length: int) -> None:
    # IOS's thesis, figure 3.5.
    predecessors = [0 if u % length == 0 else 1 << u - 1 for u in range(paths * length)]
    counts = count_block(predecessors)
    assert (counts.operators, counts.width) == (paths * length, paths)
    assert counts.transitions + counts.states == counts.bound == comb(length + 2, 2) ** paths
