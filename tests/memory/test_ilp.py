"""The integer program finds the optimum, with and without fusion."""

from __future__ import annotations

import time

import pytest
from hypothesis import given

from tests.fast_run import examples
from tests.memory.all_orders import best_peak
from tests.memory.random_graphs import problems
from tvm_ios.memory.buffers import Buffers, TensorBuffer
from tvm_ios.memory.exact.fusion import fuse
from tvm_ios.memory.footprint import check_order
from tvm_ios.memory.fused_graph import FusedGraph, unfused
from tvm_ios.memory.options import DEFAULT, SchedulerOptions
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.memory.published.ilp import solve_order
from tvm_ios.memory.published.integer_program import integer_program


def check_solver(
    problem: MemoryProblem, graph: FusedGraph, options: SchedulerOptions = DEFAULT
) -> None:
    best = best_peak(problem)
    until = time.perf_counter() + 60
    answer = solve_order(graph, 0, graph.all_nodes, range(len(graph)), until, 0, options)
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


@pytest.mark.parametrize(
    "options",
    [
        SchedulerOptions(pruning=False),
        SchedulerOptions(solver="scip"),
        SchedulerOptions(pruning=False, solver="scip"),
    ],
    ids=str,
)
@examples(20)
@given(problem=problems(5))
def test_neither_pruning_nor_the_solver_changes_the_optimum(
    problem: MemoryProblem, options: SchedulerOptions
) -> None:
    check_solver(problem, unfused(problem), options)
    check_solver(problem, fuse(problem, time.perf_counter() + 60), options)


def test_pruning_leaves_variables_out() -> None:
    """A chain of four has one step for each operator, instead of four."""
    buffers = tuple(TensorBuffer(4, 1 << op, 0b11 << op & 0b1111) for op in range(4))
    problem = MemoryProblem((0, 0b1, 0b10, 0b100), Buffers(buffers, ((),) * 4), (0,) * 4)
    graph = unfused(problem)
    pruned, whole = (integer_program(graph, 0, 0b1111, 0, 16, pruning) for pruning in (True, False))
    assert (len(pruned.x), len(whole.x)) == (4, 16)
    assert pruned.variables < whole.variables


@pytest.mark.slow
@examples(1000)
@given(problems(9))
def test_the_solver_agrees_on_many(problem: MemoryProblem) -> None:
    check_solver(problem, unfused(problem))
    check_solver(problem, fuse(problem, time.perf_counter() + 60))
