"""Relations within a threshold, and bisection, against brute force."""

from __future__ import annotations

import time

import pytest
from hypothesis import given

from tests.fast_run import examples
from tests.memory.all_orders import best_peak, orders
from tests.memory.random_graphs import problems
from tvm_ios.memory.exact.forced_order import ForcedOrder
from tvm_ios.memory.exact.fusion import fuse, fuse_further
from tvm_ios.memory.exact.least_peak import order_within
from tvm_ios.memory.exact.optimal import close_gap
from tvm_ios.memory.footprint import check_order
from tvm_ios.memory.fused_graph import FusedGraph, unfused
from tvm_ios.memory.orders import reverse_post_order
from tvm_ios.memory.problem import MemoryProblem


def later(seconds: float = 60.0) -> float:
    return time.perf_counter() + seconds


def follows(graph: FusedGraph, order: tuple[int, ...]) -> bool:
    """Whether an order of operators respects what waits for what."""
    done = 0
    for operator in order:
        if graph.waits and graph.waits[operator] & ~done:
            return False
        done |= 1 << operator
    return True


@examples(50)
@given(problems(6))
def test_relations_hold_in_every_order_within_the_threshold(problem: MemoryProblem) -> None:
    peaks = {order: problem.footprints(order).peak for order in orders(problem)}
    relations = ForcedOrder(unfused(problem))
    for threshold in sorted({*peaks.values(), min(peaks.values()) - 1}, reverse=True):
        kept = [order for order, peak in peaks.items() if peak <= threshold]
        relations = relations.copy()
        if relations.within(threshold, later()):
            graph = relations.apply()
            assert all(follows(graph, order) for order in kept)
        else:
            assert not kept


@examples(60)
@given(problems(8))
def test_an_order_within_a_threshold_is_found_or_refuted(problem: MemoryProblem) -> None:
    best = best_peak(problem)
    for threshold in (best, best - 1):
        relations = ForcedOrder(fuse(problem, later()))
        if not relations.within(threshold, later()):
            assert threshold < best
            continue
        graph = fuse_further(relations.apply(), later())
        nodes, refuted = order_within(graph, threshold, later())
        assert (nodes is None) == refuted == (threshold < best)
        if nodes is not None:
            order = graph.unfold(nodes)
            check_order(problem.predecessors, order)
            assert problem.footprints(order).peak <= threshold


def check_gap(problem: MemoryProblem) -> None:
    best, graph = best_peak(problem), fuse(problem, later())
    start = graph.unfold(reverse_post_order(graph))
    order, bound = close_gap(graph, start, 0, later())
    check_order(problem.predecessors, order)
    assert problem.footprints(order).peak == bound == best
    order, bound = close_gap(graph, start, 0, later(0.0))
    assert (order, bound) == (start, 0)


@examples(50)
@given(problems(8))
def test_it_closes_the_gap(problem: MemoryProblem) -> None:
    check_gap(problem)


@pytest.mark.slow
@examples(3000)
@given(problems(10))
def test_it_closes_the_gap_of_thousands(problem: MemoryProblem) -> None:
    check_gap(problem)
