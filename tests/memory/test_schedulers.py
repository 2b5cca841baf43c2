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
            found = schedule(problem, limit)
            check_order(problem.predecessors, found.order)
            assert found.peak == problem.footprints(found.order).peak, name
            assert found.bound <= best <= found.peak, name
            assert found.proven == (found.bound == found.peak), name
            assert found.fused_operators <= found.operators == len(problem)
        if name in ("optimal", "serenity"):
            assert found.proven, name


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
        found = schedule(problem, 1.0)
        assert (found.order, found.peak, found.proven) == ((), 0, True)
