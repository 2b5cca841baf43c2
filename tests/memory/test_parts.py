"""Parts of a problem, and partitions that look at sizes or do not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.memory.random_graphs import problems
from tvm_ios.graph.op_graph import mask_of
from tvm_ios.memory.fused_graph import unfused
from tvm_ios.memory.problem import MemoryProblem, part_of
from tvm_ios.memory.published.fusion_ilp import partition


@examples(60)
@given(problem=problems(9), cuts=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_a_part_needs_what_it_needs_within_the_whole(
    problem: MemoryProblem, cuts: tuple[int, int]
) -> None:
    begin, end = sorted(min(cut, len(problem)) for cut in cuts)
    part = part_of(problem, mask_of(range(begin)), mask_of(range(end)))
    assert len(part) == end - begin
    whole = problem.footprints(range(len(problem)))
    alone = part.footprints(range(len(part)))
    assert alone.stable == whole.stable[begin:end]
    assert alone.transient == whole.transient[begin:end]


@examples(40)
@given(problem=problems(9), parts=st.integers(1, 4))
def test_a_naive_partition_looks_at_the_order_alone(problem: MemoryProblem, parts: int) -> None:
    graph = unfused(problem)
    order = range(len(graph))
    ends = partition(graph, parts, order, memory_aware=False)
    sizes = [round(number * len(graph) / parts) for number in range(1, parts)]
    expected = [mask_of(range(size)) for size in (*sizes, len(graph)) if size]
    assert ends == list(dict.fromkeys(expected))
    # The other one may only move each of these boundaries.
    assert len(partition(graph, parts, order)) <= parts
