"""The exact search against brute force."""

from __future__ import annotations

import time

import pytest
from hypothesis import given

from tests.fast_run import examples
from tests.memory.all_orders import best_peak, orders, stable, states
from tests.memory.random_graphs import problems
from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.exact.least_peak import least_peak
from tvm_ios.memory.exact.minimum_cut import fewest_live
from tvm_ios.memory.footprint import check_order
from tvm_ios.memory.fused_graph import unfused
from tvm_ios.memory.orders import largest_need, reverse_post_order
from tvm_ios.memory.problem import MemoryProblem


def check_optimum(problem: MemoryProblem) -> None:
    start, best = reverse_post_order(problem), best_peak(problem)
    answer = least_peak(unfused(problem), start, 0, time.perf_counter() + 60)
    check_order(problem.predecessors, answer.nodes)
    assert problem.footprints(answer.nodes).peak == answer.peak == answer.bound == best
    assert largest_need(problem) <= best


@examples(300)
@given(problems(9))
def test_it_finds_the_optimum(problem: MemoryProblem) -> None:
    check_optimum(problem)


@pytest.mark.slow
@examples(5000)
@given(problems(10))
def test_it_finds_the_optimum_of_thousands(problem: MemoryProblem) -> None:
    check_optimum(problem)


@examples(100)
@given(problems(6))
def test_brute_force_is_what_the_footprints_say(problem: MemoryProblem) -> None:
    assert best_peak(problem) == min(problem.footprints(o).peak for o in orders(problem))


@examples(100)
@given(problems(7))
def test_steps_are_what_the_definitions_say(problem: MemoryProblem) -> None:
    graph = unfused(problem)
    for state in states(problem):
        for op in bits(problem.all_nodes & ~state):
            if not problem.predecessors[op] & ~state:
                change, rise = graph.step(state, op)
                assert problem.live(state) + rise == stable(problem, state, op)
                assert problem.live(state) + change == problem.live(state | 1 << op)


@examples(150)
@given(problems(8))
def test_minimum_cuts_are_the_smallest_states(problem: MemoryProblem) -> None:
    graph = unfused(problem)
    every = states(problem)
    low, high = every[len(every) // 3], every[-1 - len(every) // 4]
    low &= high
    between = [s for s in every if not low & ~s and not s & ~high]
    fewest = min(map(problem.live, between))
    smallest = [s for s in between if problem.live(s) == fewest]
    for largest in (False, True):
        state = fewest_live(graph, low, high, largest=largest)
        assert state in smallest
        assert all(not (s & ~state if largest else state & ~s) for s in smallest)
