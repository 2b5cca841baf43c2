"""Orders that fit a budget, or how much is missing."""

from __future__ import annotations

import random

import pytest
from random_graphs import random_graph

from tvm_ios.memory.budget import BudgetError, fit_budget
from tvm_ios.memory.problem import memory_problem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS


def test_it_fits_or_says_what_is_missing() -> None:
    for seed in range(30):
        problem = memory_problem(random_graph(random.Random(seed), 12))
        best = MEMORY_SCHEDULERS["optimal"](problem, 10.0).peak
        assert fit_budget(problem, best, 10.0).peak <= best
        with pytest.raises(
            BudgetError, match=f"the smallest peak of all, {best} bytes, is 1 bytes too many"
        ):
            fit_budget(problem, best - 1, 10.0)


def test_a_search_that_ran_out_of_time_says_so() -> None:
    # Large enough that nothing is proven at once.
    problem = memory_problem(random_graph(random.Random(3), 200))
    found = MEMORY_SCHEDULERS["optimal"](problem, 0.0)
    assert found.bound < found.peak
    with pytest.raises(BudgetError, match="a longer time limit may find it"):
        fit_budget(problem, found.bound, 0.0)
