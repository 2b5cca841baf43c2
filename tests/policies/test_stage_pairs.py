"""The cheapest way through two sequences of stages, beside all ways there are."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.random_dags import graph_of
from tvm_ios.costs.composed import ComposedCost
from tvm_ios.policies.stage_pairs import StagePairs, Step, side_by_side
from tvm_ios.schedule.stage import Stage, Strategy

seconds = st.floats(0.01, 1)


@st.composite
def tables(draw: st.DrawFn, lanes: int) -> np.ndarray:
    """Seconds of up to four stages on 1, 2, ... lanes, no more on more of them."""
    rows = st.lists(seconds, min_size=lanes, max_size=lanes)
    drawn = draw(st.lists(rows, min_size=1, max_size=4))
    return np.sort(np.array(drawn), axis=1)[:, ::-1]


def all_steps(pairs: StagePairs) -> list[Step]:
    """All that may take of both, by the definition."""
    n, m, most = pairs.left, pairs.right, pairs.most
    return [
        Step(i, j, i_end - i, j_end - j)
        for i, i_end in itertools.combinations(range(n + 1), 2)
        for j, j_end in itertools.combinations(range(m + 1), 2)
        if max(i_end - i, j_end - j) <= most or i == j == 0 or (i_end, j_end) == (n, m)
    ]


def least(pairs: StagePairs, left: list[float], right: list[float]) -> float:
    """The least sum of all ways, tried one by one."""
    steps = {step: pairs.cost(step) for step in all_steps(pairs)}

    @cache
    def rest(i: int, j: int) -> float:
        if (i, j) == (pairs.left, pairs.right):
            return 0.0
        ways = [
            cost + rest(i + step.of_left, j + step.of_right)
            for step, cost in steps.items()
            if (step.left, step.right) == (i, j)
        ]
        if i < pairs.left:
            ways.append(left[i] + rest(i + 1, j))
        if j < pairs.right:
            ways.append(right[j] + rest(i, j + 1))
        return min(ways)

    return rest(0, 0)


@given(st.data(), st.integers(2, 4), st.integers(1, 3))
@examples(100)
def test_no_way_is_cheaper(data: st.DataObject, lanes: int, most: int) -> None:
    left, right = data.draw(tables(lanes)), data.draw(tables(lanes))
    alone = [data.draw(st.lists(seconds, min_size=len(t), max_size=len(t))) for t in (left, right)]
    pairs = StagePairs(len(left), len(right), most)
    pairs.set_alone(*alone)
    pairs.set_bounds(left, right)
    every = all_steps(pairs)
    assert all(math.isfinite(pairs.cost(step)) for step in every)
    within = [s for s in every if max(s.of_left, s.of_right) <= most]
    assert (set(pairs.steps()), pairs.count) == (set(within), len(within))
    for step in data.draw(st.lists(st.sampled_from(every), max_size=6)):
        pairs.set_cost(step, data.draw(seconds))
    for some in (pairs, pairs.only(data.draw(st.lists(st.sampled_from(every), max_size=8)))):
        found, way = some.cheapest()
        assert found == pytest.approx(least(some, *alone))
        at = (0, 0)
        costs = 0.0
        for step in way:
            assert (step.left, step.right) == at
            at = (step.left + step.of_left, step.right + step.of_right)
            both = step.of_left and step.of_right
            costs += (
                some.cost(step)
                if both
                else alone[not step.of_left][max(at[0] - 1, 0) if step.of_left else at[1] - 1]
            )
        assert at == (len(left), len(right))
        assert costs == pytest.approx(found)


@given(st.data(), st.integers(2, 5))
@examples(40)
def test_bounds_are_those_of_composed_stages(data: st.DataObject, lanes: int) -> None:
    """Two groups side by side, each on the lanes that lowering gives it."""
    left, right = data.draw(tables(lanes)), data.draw(tables(lanes))
    graph = graph_of([0] * (len(left) + len(right)))
    known = {str(unit): tuple(row) for unit, row in enumerate((*left, *right))}
    composed = ComposedCost(known, lambda _, unit: str(unit), lanes)
    groups = (tuple(range(len(left))), tuple(range(len(left), len(graph))))
    pairs = StagePairs(len(left), len(right), 1)
    pairs.set_bounds(left, right)
    whole = pairs.cost(Step(0, 0, len(left), len(right)))
    expected = composed.stage_latency(graph, Stage(Strategy.CONCURRENT, groups))
    assert whole == pytest.approx(expected)
    one = np.sum(left, axis=0, keepdims=True), np.sum(right, axis=0, keepdims=True)
    assert side_by_side(*one)[0, 0] == pytest.approx(expected)
