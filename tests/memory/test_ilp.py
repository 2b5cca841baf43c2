"""The integer program finds the optimum, with and without fusion, whoever solves it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings

from tests.memory.all_orders import best_peak
from tests.memory.random_graphs import problems
from tests.refusals import refused
from tvm_ios.memory.buffers import Buffers
from tvm_ios.memory.exact.fusion import fuse
from tvm_ios.memory.footprint import check_order
from tvm_ios.memory.fused_graph import FusedGraph, unfused
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.memory.published.ilp import SOLVERS, SolverError, solve_order


def check_solvers(problem: MemoryProblem, graph: FusedGraph) -> None:
    best = best_peak(problem)
    for solver in SOLVERS:
        until = time.perf_counter() + 60
        found = solve_order(graph, 0, graph.all_nodes, range(len(graph)), until, solver=solver)
        order = graph.unfold(found.nodes)
        check_order(problem.predecessors, order)
        assert (found.peak, found.bound) == (best, best), solver
        assert problem.footprints(order).peak == best


@settings(max_examples=40, deadline=None)
@given(problems(6))
def test_the_solvers_agree_with_brute_force(problem: MemoryProblem) -> None:
    check_solvers(problem, unfused(problem))


@settings(max_examples=40, deadline=None)
@given(problems(9))
def test_fused_nodes_keep_what_they_need(problem: MemoryProblem) -> None:
    check_solvers(problem, fuse(problem, time.perf_counter() + 60))


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(problems(9))
def test_the_solvers_agree_on_many(problem: MemoryProblem) -> None:
    check_solvers(problem, unfused(problem))
    check_solvers(problem, fuse(problem, time.perf_counter() + 60))


def test_an_unknown_solver_is_named() -> None:
    problem = MemoryProblem((), Buffers((), ()), ())
    with refused(SolverError, "'gurobi'", "cp-sat, highs"):
        solve_order(unfused(problem), 0, 0, (), 0.0, solver="gurobi")
