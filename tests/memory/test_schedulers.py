"""What holds for every memory scheduler."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.fast_run import examples
from tests.memory.all_orders import best_peak
from tests.memory.random_graphs import problems
from tvm_ios.memory.buffers import Buffers
from tvm_ios.memory.footprint import check_order
from tvm_ios.memory.operators import with_biases
from tvm_ios.memory.options import SchedulerOptions
from tvm_ios.memory.orders import reverse_post_order
from tvm_ios.memory.problem import MemoryProblem, memory_problem
from tvm_ios.memory.published.serenity import kahn_order
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
from tvm_ios.models.load import load_operators


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


@examples(60)
@given(problems(8))
def test_options_change_how_orders_are_found_and_not_what_they_need(problem: MemoryProblem) -> None:
    best = best_peak(problem)
    for options in (
        SchedulerOptions(rpo_from="outputs"),
        SchedulerOptions(parts=1),
        SchedulerOptions(parts=3, fusion=False),
        SchedulerOptions(exact_start=False),
        SchedulerOptions(exact_start=False, pruning=False),
        SchedulerOptions(exact_start=False, solver="scip"),
    ):
        for name, schedule in MEMORY_SCHEDULERS.items():
            result = schedule(problem, 30.0, options)
            check_order(problem.predecessors, result.order)
            assert result.peak == problem.footprints(result.order).peak, name
            assert result.bound <= best <= result.peak, name
            if name == "optimal" or (name == "fusion-ilp" and options.parts in (None, 1)):
                assert result.peak == best, (name, options)


def test_reverse_post_order_begins_at_either_end() -> None:
    """Operator 0 feeds 1 and 2, which feed 3; 2 feeds 4 as well."""
    problem = MemoryProblem((0, 0b1, 0b1, 0b110, 0b100), Buffers((), ()), (0,) * 5)
    assert reverse_post_order(problem) == (0, 2, 4, 1, 3)
    assert reverse_post_order(problem, "outputs") == (0, 1, 2, 3, 4)


def test_serenity_is_never_worse_than_reverse_post_order() -> None:
    """Within no time it returns the order that it starts with."""
    graph = with_biases(load_operators("nasnet_cell"))
    problem = memory_problem(graph)
    kahn = problem.footprints(kahn_order(problem)).peak
    rpo = MEMORY_SCHEDULERS["rpo"](problem, 0.0).peak
    assert rpo < kahn
    assert MEMORY_SCHEDULERS["serenity"](problem, 0.0).peak == rpo
