"""Reverse post-order, and the result type of every memory scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.options import Direction
from tvm_ios.memory.precedence import Precedence
from tvm_ios.memory.problem import MemoryProblem


@dataclass(frozen=True, slots=True)
class MemoryOrder:
    """An operator order, its peak in bytes, and a lower bound of every order's peak.

    ``proven`` means that no order has a smaller peak; ``fused_operators`` is the number of nodes
    left to order after fusion.
    """

    order: tuple[int, ...]
    peak: int
    bound: int
    proven: bool
    seconds: float
    operators: int
    fused_operators: int


@dataclass(frozen=True, slots=True)
class Answer:
    """An order of nodes, its peak in bytes, and a lower bound; it is optimal if both are equal."""

    nodes: tuple[int, ...]
    peak: int
    bound: int


def reverse_post_order(graph: Precedence, begin: Direction = "inputs") -> tuple[int, ...]:
    """Return the reverse post-order of operators or nodes, in which compilers commonly run a graph.

    A depth-first search from nodes without predecessors follows consumers, both in the order of
    their numbers; the order in which it leaves nodes is reversed. From the outputs the search
    follows predecessors instead, and the order of leaving is the result.
    """
    if begin == "inputs":
        return tuple(reversed(_post_order(graph.predecessors, graph.successors)))
    return tuple(_post_order(graph.successors, graph.predecessors))


def as_given(problem: MemoryProblem) -> MemoryOrder:
    """Return the operators in the order of their numbers."""
    order = tuple(range(len(problem)))
    peak, bound = problem.footprints(order).peak, largest_need(problem)
    return MemoryOrder(order, peak, bound, peak == bound, 0.0, len(order), len(order))


def _post_order(behind: Sequence[int], ahead: Sequence[int]) -> list[int]:
    """Return the post-order of a depth-first search from the nodes without any ``behind``."""
    left: list[int] = []
    seen = 0
    for root in range(len(behind)):
        if behind[root]:
            continue
        seen |= 1 << root
        path = [(root, bits(ahead[root]))]
        while path:
            node, further = path[-1]
            fresh = next((other for other in further if not seen >> other & 1), None)
            if fresh is None:
                left.append(node)
                path.pop()
            else:
                seen |= 1 << fresh
                path.append((fresh, bits(ahead[fresh])))
    return left


def largest_need(problem: MemoryProblem) -> int:
    """Return the most bytes that one operator needs by itself: a lower bound of every peak."""
    buffers = problem.memory.buffers
    return max(
        (
            sum(buffers[b].nbytes for b in problem.touched[operator])
            + problem.scratch[operator]
            - max((buffers[b].nbytes for b in problem.memory.takes[operator]), default=0)
            for operator in range(len(problem))
        ),
        default=0,
    )
