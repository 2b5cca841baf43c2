"""The cheapest choices, against trying all."""

from __future__ import annotations

from itertools import product
from math import inf, isclose
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_ios.solvers import pbqp
from tvm_ios.solvers.pbqp import ChoiceProblem, Choices, cheapest

_COST = st.one_of(st.integers(0, 9).map(float), st.just(inf))


@st.composite
def problems(draw: st.DrawFn) -> ChoiceProblem:
    """Up to six variables of up to three choices, with tables of any two."""
    sizes = draw(st.lists(st.integers(1, 3), max_size=6))

    def table(*shape: int) -> np.ndarray:
        count = int(np.prod(shape))
        return np.array(draw(st.lists(_COST, min_size=count, max_size=count))).reshape(shape)

    places = range(len(sizes))
    several = [(a, b) for a in places for b in places if a < b]
    pairs = draw(st.lists(st.sampled_from(several), unique=True)) if several else []
    turned = [pair[::-1] if draw(st.booleans()) else pair for pair in pairs]
    alone = [table(size) for size in sizes]
    return ChoiceProblem(alone, {(a, b): table(sizes[a], sizes[b]) for a, b in turned})


def least(problem: ChoiceProblem) -> float:
    return min(problem.cost(c) for c in product(*(range(len(costs)) for costs in problem.alone)))


@given(problems())
def test_nothing_is_cheaper(problem: ChoiceProblem) -> None:
    choice = cheapest(problem)
    assert choice.proven
    assert choice.cost == problem.cost(choice.values) == least(problem)


@given(problems(), st.integers(1, 9))
def test_what_is_not_proven_is_said(problem: ChoiceProblem, largest: int) -> None:
    with patch.object(pbqp, "LARGEST_TABLE", largest):
        choice = cheapest(problem)
    assert choice.cost == problem.cost(choice.values)
    assert choice.cost >= least(problem)
    assert choice.cost == least(problem) or not choice.proven


def test_a_variable_that_is_set_early_minds_its_neighbours() -> None:
    """Of three that have to agree the first is set by itself, because no table may be of all."""
    differ = np.array([[0.0, 5.0], [5.0, 0.0]])
    alone = [np.array([0.0, 1.0]), np.array([2.0, 0.0]), np.array([2.0, 0.0])]
    problem = ChoiceProblem(alone, {(0, 1): differ, (1, 2): differ, (0, 2): differ})
    assert cheapest(problem) == Choices((1, 1, 1), 1.0, proven=True)
    for largest, proven in ((8, True), (4, False)):
        with patch.object(pbqp, "LARGEST_TABLE", largest):
            assert cheapest(problem) == Choices((1, 1, 1), 1.0, proven=proven)


@pytest.mark.parametrize("links", [1, 2])
def test_a_long_chain_is_quick(links: int) -> None:
    """Two hundred variables, each beside those before it."""
    rng = np.random.default_rng(0)
    count, size = 200, 8
    alone = [rng.uniform(size=size) for _ in range(count)]
    pairs = {
        (at - back, at): rng.uniform(size=(size, size))
        for at in range(count)
        for back in range(1, links + 1)
        if at >= back
    }
    problem = ChoiceProblem(alone, pairs)
    choice = cheapest(problem)
    assert choice.proven
    if links == 1:
        best = alone[0]
        for at in range(1, count):
            best = (best[:, None] + pairs[at - 1, at]).min(axis=0) + alone[at]
        assert isclose(choice.cost, best.min())
    # Nothing is gained by changing one.
    for at in range(count):
        for other in range(size):
            assert (
                problem.cost([*choice.values[:at], other, *choice.values[at + 1 :]]) >= choice.cost
            )
