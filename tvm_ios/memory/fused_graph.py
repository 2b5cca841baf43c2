"""A problem whose nodes are sequences of operators that run one right after another."""

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
    """Operators in nodes, each with an order of its own.

    What a node adds to the footprint depends on its context (does it free an input that others
    read, too?), so it keeps its operators, and they are replayed once for every context.

    Attributes
    ----------
    problem
        The problem of ordering the operators.
    sequences
        For each node its operators in order; nodes are in topological order, and each operator
        is in one of them.
    waits
        For each operator the bit set of those that must run before it without being read by it;
        empty if there are none.
    """

    problem: MemoryProblem
    sequences: tuple[tuple[int, ...], ...]
    waits: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.sequences)

    @cached_property
    def members(self) -> tuple[int, ...]:
        """For each node the bit set of its operators."""
        return tuple(map(mask_of, self.sequences))

    @cached_property
    def node_of(self) -> tuple[int, ...]:
        """For each operator its node."""
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
        """What may be live between nodes, with nodes as writers and users."""
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
        """For each node the buffers (of :attr:`buffers`) that it reads or writes."""
        return buffers_by_user(self.buffers, len(self))

    @cached_property
    def neighbours(self) -> tuple[int, ...]:
        """For each node the bit set of nodes, itself too, that use a buffer that it uses."""
        problem = self.problem
        return tuple(
            self.nodes_of(
                problem.memory.buffers[b].users for op in sequence for b in problem.touched[op]
            )
            for sequence in self.sequences
        )

    @cached_property
    def contexts(self) -> tuple[int, ...]:
        """For each node the bit set of nodes on which depends what it adds to the footprint.

        They are parallel to it and use a buffer that it uses.
        """
        return tuple(
            near & ~(1 << node | self.ancestors[node] | self.descendants[node])
            for node, near in enumerate(self.neighbours)
        )

    @cached_property
    def _steps(self) -> list[dict[int, tuple[int, int]]]:
        return [{} for _ in self.sequences]

    def nodes_of(self, masks: Iterable[int]) -> int:
        """The bit set of nodes that some bit sets of operators touch."""
        nodes = 0
        for mask in masks:
            for operator in bits(mask):
                nodes |= 1 << self.node_of[operator]
        return nodes

    def live(self, state: int) -> int:
        """The transient footprint, in bytes, of a set of executed nodes."""
        return sum(b.nbytes for b in self.buffers if is_live(b, state))

    def peak_from(self, state: int, nodes: Sequence[int]) -> int:
        """The largest stable footprint, in bytes, while some nodes run in order after others."""
        return self.live(state) + self.run(state, nodes)[1]

    def step(self, state: int, node: int) -> tuple[int, int]:
        """Bytes after a node and while its operators run, replayed once for each context."""
        context = state & self.contexts[node]
        steps = self._steps[node]
        if context not in steps:
            inner = self.inner_steps(context, node)
            steps[context] = inner[-1][0], max(rise for _, rise in inner)
        return steps[context]

    def inner_steps(self, state: int, node: int) -> list[tuple[int, int]]:
        """The same for each operator of a node: bytes after and while it runs.

        Parameters
        ----------
        state
            As for :meth:`step`; what the node depends on may be left out.
        node
            A node that is not among them.
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
        """The operators of some nodes in order."""
        return tuple(operator for node in nodes for operator in self.sequences[node])


def operator_step(problem: MemoryProblem, state: int, operator: int) -> tuple[int, int]:
    """What running one operator changes, as :meth:`FusedGraph.step`.

    Parameters
    ----------
    problem
        The problem that has the operator.
    state
        The operators executed before.
    operator
        An operator that is not among them.
    """
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
    """Every operator a node of its own, with its own number."""
    return FusedGraph(problem, tuple((operator,) for operator in range(len(problem))))


def fused(
    problem: MemoryProblem, sequences: Iterable[Sequence[int]], waits: tuple[int, ...] = ()
) -> FusedGraph:
    """Number nodes topologically.

    Parameters
    ----------
    problem
        The problem of ordering the operators.
    sequences
        Each operator in one of them; no two may wait for each other.
    waits
        As in :class:`FusedGraph`.

    Raises
    ------
    ValueError
        If nodes wait for each other.
    """
    nodes = [tuple(sequence) for sequence in sequences]
    order = ordered_groups([mask_of(node) for node in nodes], _needs(problem, waits))
    if order is None:
        raise ValueError("these sequences wait for each other")
    return FusedGraph(problem, tuple(nodes[place] for place in order), waits)


def _needs(problem: MemoryProblem, waits: tuple[int, ...]) -> Sequence[int]:
    """For each operator the bit set of those that must run before it."""
    before = problem.predecessors
    return [a | b for a, b in zip(before, waits, strict=True)] if waits else before
