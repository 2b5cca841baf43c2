"""Orders that are searched for the smallest arena are orders, and their arenas never larger."""

from __future__ import annotations

import time
from functools import cache

from hypothesis import given, settings

from benchmarks.memory.schedulers import random_dag
from tests.fast_run import examples
from tests.memory.all_orders import orders
from tests.memory.random_graphs import problems
from tvm_ios.memory.arena import aligned, plan_order
from tvm_ios.memory.footprint import check_order
from tvm_ios.memory.order_for_arena import order_for_arena
from tvm_ios.memory.order_walk import OrderWalk
from tvm_ios.memory.problem import MemoryProblem, memory_problem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS


@examples(60)
@given(problems(6))
def test_a_walk_visits_orders_below_a_peak(problem: MemoryProblem) -> None:
    walk = OrderWalk(problem, MEMORY_SCHEDULERS["rpo"](problem, 0.0).order)
    most = walk.steps.peak
    for _ in range(50):
        before = walk.order
        assert walk.move(most) or walk.order == before
        check_order(problem.predecessors, walk.order)
        assert problem.footprints(walk.order) == walk.steps
        assert walk.steps.peak <= most


@examples(25)
@given(problems(6))
def test_no_order_has_a_smaller_arena(problem: MemoryProblem) -> None:
    """From any order, of any peak, the search finds the best arena of all orders."""

    @cache
    def arena(order: tuple[int, ...]) -> int:
        return plan_order(problem, order).plan.nbytes

    least = min(map(arena, orders(problem)))
    plain = MEMORY_SCHEDULERS["rpo"](problem, 0.0)
    bound = MEMORY_SCHEDULERS["optimal"](problem, 30.0).bound
    known = plan_order(problem, plain.order)
    until = time.perf_counter() + 0.3
    found, placed = order_for_arena(problem, plain, known, until, most_peak=known.plan.nbytes)
    check_order(problem.predecessors, found.order)
    assert found.peak == problem.footprints(found.order).peak
    assert aligned(bound) <= placed.plan.nbytes == least
    assert placed.plan.nbytes == arena(found.order)


@settings(deadline=None)
@given(problems(9))
def test_the_peak_does_not_rise_unless_it_may(problem: MemoryProblem) -> None:
    optimal = MEMORY_SCHEDULERS["optimal"](problem, 30.0)
    known = plan_order(problem, optimal.order)
    found, placed = order_for_arena(problem, optimal, known, time.perf_counter() + 0.02)
    assert (found.peak, found.proven) == (optimal.peak, True)
    assert placed.plan.nbytes <= known.plan.nbytes


def test_gaps_of_an_order_of_the_least_peak_are_closed() -> None:
    """The exact search's order of this graph has an arena above its peak; another has none."""
    problem = memory_problem(random_dag(24))
    optimal = MEMORY_SCHEDULERS["optimal"](problem, 30.0)
    known = plan_order(problem, optimal.order)
    assert optimal.proven
    found, placed = order_for_arena(problem, optimal, known, time.perf_counter() + 30)
    check_order(problem.predecessors, found.order)
    assert placed.plan.nbytes == found.peak == optimal.peak
