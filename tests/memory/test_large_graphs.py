"""Training steps of 10,000 operators are ordered and placed in time, with good orders."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from benchmarks.memory.schedulers import random_nas
from tests.fast_run import only
from tests.memory.training_graphs import gpt2_step, resnet_step
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.memory.arena import plan_order
from tvm_ios.memory.footprint import Counting, check_order
from tvm_ios.memory.problem import memory_problem
from tvm_ios.memory.schedulers import MEMORY_SCHEDULERS
from tvm_ios.program.arena.solver import SolverLimits

#: Seconds above a limit that preparations may take.
_ABOVE = 2.0
_OPERATORS = 10_000


def check_in_time(graph: OpGraph, counting: Counting, limit: float) -> None:
    begin = time.process_time()
    problem = memory_problem(graph, counting)
    prepared = time.process_time() - begin
    plain = found = MEMORY_SCHEDULERS["rpo"](problem, limit)
    for name, schedule in MEMORY_SCHEDULERS.items():
        # Not of the clock, which other processes disturb.
        begin = time.process_time()
        found = schedule(problem, limit)
        assert prepared + time.process_time() - begin <= limit + _ABOVE, name
        check_order(problem.predecessors, found.order)
        assert found.peak == problem.footprints(found.order).peak <= plain.peak, name
        assert 0 < found.bound <= found.peak, name
    begin = time.process_time()
    arena = plan_order(problem, found.order, SolverLimits(seconds=limit))
    assert time.process_time() - begin <= limit + _ABOVE
    assert found.peak <= arena.bound <= arena.plan.nbytes


@pytest.mark.parametrize("step", only([resnet_step], [gpt2_step, resnet_step]))
def test_training_steps_end_in_time(step: Callable[[int], OpGraph]) -> None:
    check_in_time(step(_OPERATORS), Counting(), 0.5)


@pytest.mark.parametrize("step", only([gpt2_step], [gpt2_step, resnet_step]))
def test_the_least_peak_of_a_training_step_is_proven(step: Callable[[int], OpGraph]) -> None:
    problem = memory_problem(step(_OPERATORS))
    found = MEMORY_SCHEDULERS["optimal"](problem, 30.0)
    assert found.proven
    assert found.peak <= MEMORY_SCHEDULERS["hmcos"](problem, 1.0).peak


@pytest.mark.slow
@pytest.mark.parametrize("counting", [Counting(), Counting(True), Counting(True, True)], ids=str)
@pytest.mark.parametrize("graph", [gpt2_step, resnet_step, lambda size: random_nas(0, size)])
@pytest.mark.parametrize("limit", [1.0, 5.0])
def test_any_large_graph_ends_in_time(
    graph: Callable[[int], OpGraph], counting: Counting, limit: float
) -> None:
    check_in_time(graph(_OPERATORS), counting, limit)
