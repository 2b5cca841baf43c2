"""What holds for every memory scheduler."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.fast_run import examples
from tests.memory.all_orders import best_peak
from tests.memory.random_graphs import problems
from tvm_ios.memory.buffers import Buffers
from tvm_ios.memory.footprint import check_order
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS


def check_schedulers(problem: MemoryProblem) -> None:
    best = best_peak(problem)
    for name, schedule in MEMORY_SCHEDULERS.items():
        for limit in (0.0, 30.0):
            result = schedule(problem, limit)
            check_order(problem.predecessors, result.order)
            assert result.peak == problem.footprints(result.order).peak, name
            assert result.bound <= best <= result.peak, name
            assert result.proven == (result.bound == result.peak), name
            assert result.fused_operators <= result.operators == len(problem)
        if name in ("optimal", "serenity"):
            assert result.proven, name


@examples(60)
@given(problems(9))
def test_none_beats_the_optimum(problem: MemoryProblem) -> None:
    check_schedulers(problem)


@pytest.mark.slow
@examples(1000)
@given(problems(10))
def test_none_beats_the_optimum_of_a_thousand(problem: MemoryProblem) -> None:
    check_schedulers(problem)


def test_a_graph_without_operators_needs_nothing() -> None:
    problem = MemoryProblem((), Buffers((), ()), ())
    for schedule in MEMORY_SCHEDULERS.values():
        result = schedule(problem, 1.0)
        assert (result.order, result.peak, result.proven) == ((), 0, True)
