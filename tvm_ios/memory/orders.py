"""Orders that need no search, and what every scheduler returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.options import Direction
from tvm_ios.memory.precedence import Precedence
from tvm_ios.memory.problem import MemoryProblem


@dataclass(frozen=True, slots=True)
class MemoryOrder:
    """An order of operators, and how good it is.

    Attributes
    ----------
    order
        Operator numbers.
    peak
        Bytes of its largest stable footprint.
    bound
        Bytes that no order is below.
    proven
        Whether no order has a smaller peak.
    seconds
        How long the search took.
    operators, fused_operators
        How many nodes the graph has, and how many were left to order after fusion.
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
    """An order of nodes, its peak, and the bytes that no order is below.

    It is the best one if both are equal.
    """

    nodes: tuple[int, ...]
    peak: int
    bound: int


def reverse_post_order(graph: Precedence, begin: Direction = "inputs") -> tuple[int, ...]:
    """The order in which deep-learning compilers commonly run a graph, of operators or of nodes.

    A depth-first search that starts at operators without predecessors and follows consumers, both
    in the order of their numbers; an operator is left after all that read from it, and the order
    of leaving is turned round. From the outputs the search follows what is read instead, and the
    order of leaving is the order.
    """
    if begin == "inputs":
        return tuple(reversed(_post_order(graph.predecessors, graph.successors)))
    return tuple(_post_order(graph.successors, graph.predecessors))


def _post_order(behind: Sequence[int], ahead: Sequence[int]) -> list[int]:
    """The order of leaving of a depth-first search from the nodes that have none behind them."""
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
    """Bytes that some operator needs by itself: no order has a smaller peak."""
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
