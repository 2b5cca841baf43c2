"""The integer program finds the optimum, with and without fusion."""

from __future__ import annotations

import time

import pytest
from hypothesis import given

from tests.fast_run import examples
from tests.memory.all_orders import best_peak
from tests.memory.random_graphs import problems
from tvm_ios.memory.exact.fusion import fuse
from tvm_ios.memory.footprint import check_order
from tvm_ios.memory.fused_graph import FusedGraph, unfused
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.memory.published.ilp import solve_order


def check_solver(problem: MemoryProblem, graph: FusedGraph) -> None:
    best = best_peak(problem)
    until = time.perf_counter() + 60
    answer = solve_order(graph, 0, graph.all_nodes, range(len(graph)), until)
    order = graph.unfold(answer.nodes)
    check_order(problem.predecessors, order)
    assert (answer.peak, answer.bound) == (best, best)
    assert problem.footprints(order).peak == best


@examples(40)
@given(problems(6))
def test_the_solver_agrees_with_brute_force(problem: MemoryProblem) -> None:
    check_solver(problem, unfused(problem))


@examples(40)
@given(problems(9))
def test_fused_nodes_keep_what_they_need(problem: MemoryProblem) -> None:
    check_solver(problem, fuse(problem, time.perf_counter() + 60))


@pytest.mark.slow
@examples(1000)
@given(problems(9))
def test_the_solver_agrees_on_many(problem: MemoryProblem) -> None:
    check_solver(problem, unfused(problem))
    check_solver(problem, fuse(problem, time.perf_counter() + 60))
