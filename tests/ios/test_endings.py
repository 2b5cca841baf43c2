from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tvm_ios.ios.endings as endings_module
from tests.fast_run import examples
from tests.ios.brute_force import all_endings, all_states, groups_of
from tests.random_dags import dags, graph_of
from tests.refusals import refused
from tvm_ios.errors import SearchError
from tvm_ios.graph.down_sets import down_sets
from tvm_ios.ios.dynamic_program import solve_space
from tvm_ios.ios.ending_space import EndingSpace, Pruning
from tvm_ios.ios.endings import enumerate_endings, enumerate_runs
from tvm_ios.policies.greedy import greedy_schedule

limits = st.none() | st.integers(1, 4)


def by_state(space: EndingSpace) -> dict[int, list[int]]:
    result: dict[int, list[int]] = {}
    for i, state in enumerate(space.states.tolist()):
        edges = range(int(space.starts[i]), int(space.starts[i + 1]))
        result[state] = [int(space.endings[space.ending[e]]) for e in edges]
        for e in edges:
            assert state & ~int(space.endings[space.ending[e]]) == int(
                space.states[space.remaining[e]]
            )
    return result


def check(predecessors: tuple[int, ...], r: int | None, s: int | None) -> None:
    space = enumerate_endings(predecessors, Pruning(r, s))
    listed = by_state(space)
    expected = all_endings(predecessors, r, s)
    assert {state: set(e) for state, e in listed.items()} == expected
    assert all(len(e) == len(set(e)) for e in listed.values())
    assert set(space.endings.tolist()) == set().union(*expected.values())
    for i, ending in enumerate(space.endings.tolist()):
        assert tuple(sorted(space.groups[i])) == groups_of(predecessors, ending)
        assert space.groups_count[i] == len(space.groups[i])
        assert space.index_of(ending) == i


@given(dags(7), limits, limits)
@examples(80)
def test_endings_equal_brute_force(
    predecessors: tuple[int, ...], r: int | None, s: int | None
) -> None:
    check(predecessors, r, s)


@given(dags(7), limits)
@examples(80)
def test_runs_are_endings_of_one_order(predecessors: tuple[int, ...], s: int | None) -> None:
    space = enumerate_runs(predecessors, Pruning(None, s))
    expected = all_endings(predecessors, 1, s)
    for state, endings in by_state(space).items():
        assert set(endings) <= expected[state]
    assert space.states[-1] == (1 << len(predecessors)) - 1
    assert all(space.index_of(1 << unit) >= 0 for unit in range(len(predecessors)))
    for i, ending in enumerate(space.endings.tolist()):
        assert tuple(sorted(space.groups[i])) == groups_of(predecessors, ending)
    # Where every stage takes as long, the fewest stages of units that do not wait for each other.
    ones, first = np.ones(len(space.endings)), np.zeros(len(space.endings), np.int64)
    longest_path = len(greedy_schedule(graph_of(predecessors)).stages)
    stages = len(solve_space(space, ones, first).stages)
    assert stages == longest_path if s is None else stages >= longest_path


@given(dags(6), st.integers(1, 4), limits)
@examples(40)
def test_both_ways_of_enumerating_agree(
    predecessors: tuple[int, ...], r: int, s: int | None
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(endings_module, "connected_pieces", lambda *_: None)
        check(predecessors, r, s)


@given(dags(7), st.integers(1, 3), limits)
@examples(40)
def test_small_chunks_change_nothing(predecessors: tuple[int, ...], r: int, s: int | None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(endings_module, "_CHUNK", 3)
        check(predecessors, r, s)
        check(predecessors, None, s)


@given(dags(8))
@examples(40)
def test_states_are_the_down_sets_by_size(predecessors: tuple[int, ...]) -> None:
    states = down_sets(predecessors).tolist()
    assert states == sorted(all_states(predecessors), key=lambda m: (m.bit_count(), m))


def test_two_chains_of_more_than_63_units() -> None:
    # IOS, lemma 3: a chain of c units has (c + 2 choose 2) pairs of prefix and suffix.
    length = 32
    predecessors = [1 << (u - 2) if u >= 2 else 0 for u in range(2 * length)]
    space = enumerate_endings(predecessors)
    pairs = (length + 2) * (length + 1) // 2
    assert len(space.states) == (length + 1) ** 2
    assert space.transitions == pairs**2 - len(space.states)
    assert space.groups_count.max() == 2


def test_a_graph_of_no_units_has_one_state() -> None:
    space = enumerate_endings([])
    assert space.states.tolist() == [0]
    assert space.transitions == 0


def test_a_limit_below_one_is_refused() -> None:
    with refused(SearchError, "r=0"):
        Pruning(r=0)
    with refused(SearchError, "s=-1"):
        Pruning(s=-1)


def test_units_must_be_in_topological_order() -> None:
    with refused(SearchError, "unit 0"):
        enumerate_endings([0b10, 0])


def test_too_large_a_search_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings_module, "_MOST_TRANSITIONS", 50)
    with refused(SearchError, 50, "r", "s"):
        enumerate_endings([0] * 5)
    with refused(SearchError, 50, "r", "s"):
        enumerate_endings([0] * 6, Pruning(1, 6))


def test_an_ending_outside_the_pruning_has_no_index() -> None:
    space = enumerate_endings([0, 1], Pruning(r=1))
    with refused(SearchError, "[0, 1]"):
        space.index_of(0b11)
