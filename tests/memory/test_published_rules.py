"""Where the published fusion rules, taken by their words, lose the optimum.

Theorem IV.1 of "Memory-aware Scheduling for Complex Wired Networks" fuses a linear sequence whose
transient and stable footprints, counted in the sequence alone, are both monotonic. An input that
others read too is not freed there when the sequence thinks so.

Theorem IV.2 fuses an isolated sub-graph if the transient footprints inside *the given order* are
all at least those before and after it. Another order may have a state with fewer bytes inside,
where it is worth stopping. :func:`fuse` asks for all of them, and keeps the optimum.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pytest

from tests.memory.all_orders import best_peak
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.memory.exact.fusion import fuse
from tvm_ios.memory.exact.least_peak import least_peak
from tvm_ios.memory.fused_graph import FusedGraph, fused
from tvm_ios.memory.problem import MemoryProblem, memory_problem


def problem_of(
    image: int, operators: Sequence[tuple[tuple[int, ...], int]], scratch: Mapping[int, int]
) -> MemoryProblem:
    """Operators as the tensors that they read (0 is the image) and the bytes that they make."""
    tensors = [Tensor("image", (image,), "int8")]
    tensors += [Tensor(f"t{i}", (nbytes,), "int8") for i, (_, nbytes) in enumerate(operators)]
    computing = [
        Operator(f"op{i}", "conv2d", read, (i + 1,)) for i, (read, _) in enumerate(operators)
    ]
    read = {tensor for inputs, _ in operators for tensor in inputs}
    outputs = tuple(t for t in range(1, len(tensors)) if t not in read)
    return memory_problem(
        OpGraph("example", tuple(computing), tuple(tensors), (0,), outputs), scratch=scratch
    )


def is_monotonic(problem: MemoryProblem, sequence: tuple[int, ...]) -> bool:
    """Whether the theorem fuses a sequence: its footprints, with nothing else in the graph."""
    buffers = problem.memory.buffers
    sizes = [
        sum(b.nbytes for b in buffers if b.users >> op & 1 and b.writers != 1 << op)
        for op in sequence
    ]
    last = sequence[-1]
    sizes.append(sum(b.nbytes for b in buffers if b.writers == 1 << last))
    stable = [
        a + b + problem.scratch[op] for a, b, op in zip(sizes, sizes[1:], sequence, strict=False)
    ]
    return any(
        values == (sorted(sizes, reverse=down), sorted(stable, reverse=down))
        for values in [(sizes, stable)]
        for down in (False, True)
    )


def peak_of(graph: FusedGraph) -> int:
    result = least_peak(graph, range(len(graph)), 0, time.perf_counter() + 60)
    assert result.peak == result.bound
    return result.peak


@pytest.mark.parametrize(
    ("problem", "sequence", "best", "worse"),
    [
        # The sequence reads the image, which others read too.
        (problem_of(12, [((0,), 3), ((0, 1), 4), ((0,), 1), ((2,), 4)], {}), (1, 3), 19, 20),
        # And with scratch.
        (
            problem_of(
                20,
                [((0,), 5), ((0, 1), 5), ((2,), 5), ((0,), 4), ((1,), 1)],
                {0: 6, 2: 6, 3: 3, 4: 3},
            ),
            (1, 2),
            33,
            34,
        ),
    ],
    ids=["shared input", "scratch"],
)
def test_a_monotonic_sequence_may_lose_the_optimum(
    problem: MemoryProblem, sequence: tuple[int, ...], best: int, worse: int
) -> None:
    assert is_monotonic(problem, sequence)
    alone = [(op,) for op in range(len(problem)) if op not in sequence]
    assert best_peak(problem) == best
    assert peak_of(fused(problem, [sequence, *alone])) == worse
    assert peak_of(fuse(problem, time.perf_counter() + 60)) == best


def test_a_sub_graph_may_lose_the_optimum() -> None:
    operators = [((0,), 7), ((0,), 2), ((2,), 7), ((0,), 2), ((2,), 5), ((3,), 5), ((6,), 6)]
    problem, inside = problem_of(7, [*operators, ((7,), 2)], {}), (2, 5, 6, 4, 7)
    before = 1 << 1  # all of it reads what operator 1 makes, and nothing else does
    ends = max(problem.live(before), problem.live(before | sum(1 << op for op in inside)))
    steps = [before]
    for op in inside:
        steps.append(steps[-1] | 1 << op)
    assert all(problem.live(state) >= ends for state in steps[1:-1])
    alone = [(op,) for op in range(len(problem)) if op not in inside]
    assert best_peak(problem) == 21
    assert peak_of(fused(problem, [inside, *alone])) == 23
    assert peak_of(fuse(problem, time.perf_counter() + 60)) == 21
