"""A memory problem whose nodes are sequences of operators that run back to back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm_ios.graph.op_graph import bits, mask_of
from tvm_ios.memory.buffers import TensorBuffer, buffers_by_user
from tvm_ios.memory.precedence import ordered_groups
from tvm_ios.memory.problem import MemoryProblem, is_live
from tvm_ios.memory.state_graph import StateGraph


@dataclass(frozen=True)
class FusedGraph(StateGraph):
    """A memory problem's operators grouped into nodes, each a sequence that runs back to back.

    The bytes that a node adds depend on its context (has another reader of its input run?), so its
    operators are replayed once for every context. Nodes are in topological order, and each operator
    is in one of them.
    """

    problem: MemoryProblem
    sequences: tuple[tuple[int, ...], ...]
    #: For each operator the bit set of those that must run before it although it does not read
    #: them; empty if there are none.
    waits: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.sequences)

    @cached_property
    def members(self) -> tuple[int, ...]:
        """For each node the bit set of its operators."""
        return tuple(map(mask_of, self.sequences))

    @cached_property
    def node_of(self) -> tuple[int, ...]:
        """For each operator the number of its node."""
        node_of = [0] * len(self.problem)
        for node, sequence in enumerate(self.sequences):
            for operator in sequence:
                node_of[operator] = node
        return tuple(node_of)

    @cached_property
    def predecessors(self) -> tuple[int, ...]:
        """For each node the bit set of nodes that it reads from or waits for."""
        needs = _needs(self.problem, self.waits)
        before = (self.nodes_of(needs[op] for op in sequence) for sequence in self.sequences)
        return tuple(mask & ~(1 << node) for node, mask in enumerate(before))

    @cached_property
    def buffers(self) -> tuple[TensorBuffer, ...]:
        """Buffers that can be live between nodes, with nodes as writers and users."""
        buffers = (
            TensorBuffer(
                b.nbytes,
                self.nodes_of((b.writers,)),
                self.nodes_of((b.users,)),
                b.at_start,
                b.at_end,
            )
            for b in self.problem.memory.buffers
        )
        return tuple(b for b in buffers if b.at_start or b.at_end or b.users.bit_count() > 1)

    @cached_property
    def touched(self) -> tuple[tuple[int, ...], ...]:
        """For each node the numbers, in :attr:`buffers`, of those that it reads or writes."""
        return buffers_by_user(self.buffers, len(self))

    @cached_property
    def neighbours(self) -> tuple[int, ...]:
        """For each node the bit set of nodes, itself included, that use one of its buffers."""
        problem = self.problem
        return tuple(
            self.nodes_of(
                problem.memory.buffers[b].users for op in sequence for b in problem.touched[op]
            )
            for sequence in self.sequences
        )

    @cached_property
    def contexts(self) -> tuple[int, ...]:
        """For each node its context: the nodes on which the bytes that it adds depend.

        These are parallel to it and use one of its buffers. Bit sets.
        """
        return tuple(
            near & ~(1 << node | self.ancestors[node] | self.descendants[node])
            for node, near in enumerate(self.neighbours)
        )

    @cached_property
    def _steps(self) -> list[dict[int, tuple[int, int]]]:
        return [{} for _ in self.sequences]

    def nodes_of(self, masks: Iterable[int]) -> int:
        """Return the bit set of nodes that contain an operator of some bit sets."""
        nodes = 0
        for mask in masks:
            for operator in bits(mask):
                nodes |= 1 << self.node_of[operator]
        return nodes

    def live(self, state: int) -> int:
        """Return the transient footprint, in bytes, after a set of executed nodes."""
        return sum(b.nbytes for b in self.buffers if is_live(b, state))

    def peak_from(self, state: int, nodes: Sequence[int]) -> int:
        """Return the largest stable footprint, in bytes, while nodes run in order from a state."""
        return self.live(state) + self.run(state, nodes)[1]

    def step(self, state: int, node: int) -> tuple[int, int]:
        """Return the bytes that a node changes; its operators are replayed once a context."""
        context = state & self.contexts[node]
        steps = self._steps[node]
        if context not in steps:
            inner = self.inner_steps(context, node)
            steps[context] = inner[-1][0], max(rise for _, rise in inner)
        return steps[context]

    def inner_steps(self, state: int, node: int) -> list[tuple[int, int]]:
        """Return, for each operator of a node, the bytes after it and while it runs.

        Both are relative to the live bytes before the node. Ancestors may be left out of ``state``.
        """
        problem = self.problem
        done = 0
        for other in bits((state | self.ancestors[node]) & self.neighbours[node]):
            done |= self.members[other]
        level, steps = 0, list[tuple[int, int]]()
        for operator in self.sequences[node]:
            change, rise = operator_step(problem, done, operator)
            steps.append((level + change, level + rise))
            level += change
            done |= 1 << operator
        return steps

    def unfold(self, nodes: Iterable[int]) -> tuple[int, ...]:
        """Return the operators of nodes in order."""
        return tuple(operator for node in nodes for operator in self.sequences[node])


def operator_step(problem: MemoryProblem, state: int, operator: int) -> tuple[int, int]:
    """Return the bytes that running one operator changes: after it, and while it runs."""
    buffers, after = problem.memory.buffers, state | 1 << operator
    taken = freed = 0
    for number in problem.touched[operator]:
        buffer = buffers[number]
        if not buffer.at_start and not buffer.writers & state:
            taken += buffer.nbytes
        if not buffer.at_end and not buffer.users & ~after:
            freed += buffer.nbytes
    over = (
        buffers[b].nbytes for b in problem.memory.takes[operator] if not buffers[b].users & ~after
    )
    return taken - freed, taken + problem.scratch[operator] - next(over, 0)


def unfused(problem: MemoryProblem) -> FusedGraph:
    """Return the graph in which every operator is a node of its own, with the same number."""
    return FusedGraph(problem, tuple((operator,) for operator in range(len(problem))))


def fused(
    problem: MemoryProblem, sequences: Iterable[Sequence[int]], waits: tuple[int, ...] = ()
) -> FusedGraph:
    """Return the graph of some sequences, numbered topologically; each operator is in one.

    Raise ValueError if two sequences wait for each other.
    """
    nodes = [tuple(sequence) for sequence in sequences]
    order = ordered_groups([mask_of(node) for node in nodes], _needs(problem, waits))
    if order is None:
        raise ValueError("these sequences wait for each other")
    return FusedGraph(problem, tuple(nodes[place] for place in order), waits)


def _needs(problem: MemoryProblem, waits: tuple[int, ...]) -> Sequence[int]:
    """Return, for each operator, the bit set of those that must run before it."""
    before = problem.predecessors
    return [a | b for a, b in zip(before, waits, strict=True)] if waits else before
