from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import assume, given

from tests.fast_run import examples
from tests.ios.brute_force import all_endings, all_schedules, groups_of
from tests.random_dags import dags
from tvm_ios.graph.op_graph import bits, mask_of
from tvm_ios.ios.counts import BlockCounts, GroupRule, count_block, width
from tvm_ios.models.bare_graph import BareGraph


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


def largest(graph: BareGraph, groups: GroupRule) -> BlockCounts:
    counts = [count_block(block.predecessors, groups) for block in graph.blocks]
    return max(counts, key=lambda c: c.transitions)


@pytest.mark.parametrize(
    ("name", "n", "d", "transitions", "schedules"),
    [
        ("inception_v3", 11, 6, "4.9e+03", "3.8e+06"),
        ("squeezenet", 6, 3, "5.1e+01", "1.3e+02"),
        ("nasnet_a", 18, 8, "3.1e+05", "7.2e+12"),
        pytest.param("randwire", 33, 8, "1.2e+06", "9.2e+22", marks=pytest.mark.slow),
    ],
)
def test_the_published_table(
    published: Callable[[str], BareGraph],
    name: str,
    n: int,
    d: int,
    transitions: str,
    schedules: str,
) -> None:
    # IOS, table 3.1.
    counts = largest(published(name), "rooted")
    assert (counts.operators, counts.width) == (n, d)
    assert (f"{counts.transitions:.1e}", f"{counts.schedules:.1e}") == (transitions, schedules)


@pytest.mark.parametrize(
    ("name", "transitions", "schedules"),
    [("squeezenet", 60, 152), ("inception_v3", 5040, 4_410_136)],
)
def test_connected_groups_are_more(
    published: Callable[[str], BareGraph], name: str, transitions: int, schedules: int
) -> None:
    counts = largest(published(name), "connected")
    assert (counts.transitions, counts.schedules) == (transitions, schedules)


def test_connected_randwire(published: Callable[[str], BareGraph]) -> None:
    blocks = published("randwire").blocks
    total = sum(count_block(block.predecessors).transitions for block in blocks)
    assert total == 10_675_850
