"""Fusion keeps the least peak, and what it counts is what the operators need."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.memory.all_orders import best_peak
from tests.memory.random_graphs import problems
from tvm_ios.memory.exact.fusion import fuse
from tvm_ios.memory.exact.least_peak import least_peak
from tvm_ios.memory.footprint import check_order
from tvm_ios.memory.problem import MemoryProblem


def check_fusion(problem: MemoryProblem) -> None:
    graph = fuse(problem, time.perf_counter() + 60)
    answer = least_peak(graph, range(len(graph)), 0, time.perf_counter() + 60)
    order = graph.unfold(answer.nodes)
    check_order(problem.predecessors, order)
    assert problem.footprints(order).peak == answer.peak == answer.bound == best_peak(problem)


@examples(300)
@given(problems(9))
def test_it_keeps_the_optimum(problem: MemoryProblem) -> None:
    check_fusion(problem)


@pytest.mark.slow
@examples(5000)
@given(problems(12))
def test_it_keeps_the_optimum_of_thousands(problem: MemoryProblem) -> None:
    check_fusion(problem)


@examples(150)
@given(problems(12), st.randoms(use_true_random=False))
def test_steps_add_up_to_footprints(problem: MemoryProblem, rng) -> None:
    graph = fuse(problem, time.perf_counter() + 60)
    state, nodes, levels = 0, [], []
    while state != graph.all_nodes:
        ready = [
            n
            for n in range(len(graph))
            if not state >> n & 1 and not graph.predecessors[n] & ~state
        ]
        nodes.append(rng.choice(ready))
        inner = graph.inner_steps(state, nodes[-1])
        live = graph.live(state)
        levels += [(live + change, live + rise) for change, rise in inner]
        assert graph.step(state, nodes[-1]) == (inner[-1][0], max(rise for _, rise in inner))
        state |= 1 << nodes[-1]
    counted = problem.footprints(graph.unfold(nodes))
    assert levels == list(zip(counted.transient, counted.stable, strict=True))
