"""Hierarchical graphs: operators in sequences, sequences in groups (HMCOS, section 3)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.fused_graph import FusedGraph, fused
from tvm_ios.memory.precedence import ordered_groups
from tvm_ios.memory.problem import MemoryProblem
from tvm_ios.memory.published.soft_budget import soft_budget
from tvm_ios.memory.state_graph import StateGraph


@dataclass(frozen=True)
class Hierarchy(StateGraph):
    """Groups of sequences in topological order, each group ordered for the context it runs in.

    Groups are bit sets of sequences; a sequence outside all cells is a group of its own. Groups are
    ordered until ``until`` (:func:`time.perf_counter`).
    """

    graph: FusedGraph
    groups: tuple[int, ...]
    until: float

    @cached_property
    def predecessors(self) -> tuple[int, ...]:
        """For each group the bit set of groups that it reads from."""
        predecessors: list[int] = []
        for group in self.groups:
            before = 0
            for sequence in bits(group):
                for source in bits(self.graph.predecessors[sequence] & ~group):
                    before |= 1 << self._place[source]
            predecessors.append(before)
        return tuple(predecessors)

    @cached_property
    def _orders(self) -> dict[tuple[int, int], tuple[tuple[int, ...], int, int]]:
        return {}

    def step(self, state: int, node: int) -> tuple[int, int]:
        """Return the bytes that a group changes when it runs in the order for its context."""
        return self._ordered(state, node)[1:]

    def order(self, state: int, node: int) -> tuple[int, ...]:
        """Return the sequences of a group in the order for its context."""
        return self._ordered(state, node)[0]

    def _ordered(self, state: int, node: int) -> tuple[tuple[int, ...], int, int]:
        groups, near, above = self._surroundings[node]
        near &= self._sequences(state & groups)
        key = (node, near)
        if key not in self._orders:
            low, group = above, self.groups[node]
            for sequence in bits(near & ~above):
                low |= 1 << sequence | self.graph.ancestors[sequence] & ~group
            answer = soft_budget(self.graph, low, tuple(bits(group)), self.until)
            self._orders[key] = (answer.nodes, *self.graph.run(low, answer.nodes))
        return self._orders[key]

    @cached_property
    def _surroundings(self) -> tuple[tuple[int, int, int], ...]:
        """For each group: the groups and sequences of its context, and its ancestor sequences."""
        surroundings: list[tuple[int, int, int]] = []
        for group in self.groups:
            near = above = groups = 0
            for sequence in bits(group):
                near |= self.graph.contexts[sequence]
                above |= self.graph.ancestors[sequence]
            for sequence in bits(near & ~group):
                groups |= 1 << self._place[sequence]
            surroundings.append((groups, near & ~group, above & ~group))
        return tuple(surroundings)

    @cached_property
    def _place(self) -> dict[int, int]:
        """For each sequence the number of its group."""
        return {sequence: i for i, group in enumerate(self.groups) for sequence in bits(group)}

    def _sequences(self, state: int) -> int:
        sequences = 0
        for node in bits(state):
            sequences |= self.groups[node]
        return sequences

    def ungrouped(self, node: int) -> Hierarchy:
        """Return the hierarchy in which each sequence of one group is a group of its own."""
        groups = (g for i, g in enumerate(self.groups) if i != node)
        alone = (1 << sequence for sequence in bits(self.groups[node]))
        ordered = _topological(self.graph, [*groups, *alone])
        assert ordered is not None
        return Hierarchy(self.graph, ordered, self.until)


def hierarchy(problem: MemoryProblem, until: float) -> Hierarchy:
    """Collect a problem's operators into sequences and these into groups.

    A sequence is a maximal chain of operators with one predecessor and one successor each. A group
    is a cell: an *exit*, where branches join, and the sequences from which every path leads to it.
    Exits are the joins that every order passes alone, and between two of these the joins after
    which another join is not certain.
    """
    graph = fused(problem, _chains(problem))
    groups = tuple(1 << node for node in range(len(graph)))
    # Each cell in turn becomes a group unless then two groups wait for each other. They do so with
    # further groups too, which is why halves are tried only where all at once are too many.
    trials = [[cell for cell in _cells(graph) if cell.bit_count() > 1]]
    while trials and time.perf_counter() < until:
        cells = trials.pop()
        inside = sum(cells)
        others = [group for group in groups if not group & inside]
        if (ordered := _topological(graph, [*others, *cells])) is not None:
            groups = ordered
        elif len(cells) > 1:
            half = len(cells) // 2
            trials += [cells[half:], cells[:half]]
    return Hierarchy(graph, groups, until)


def _chains(problem: MemoryProblem) -> list[tuple[int, ...]]:
    chains: dict[int, list[int]] = {}
    for operator, before in enumerate(problem.predecessors):
        chain = chains.get(before.bit_length() - 1) if before.bit_count() == 1 else None
        if chain is None or problem.successors[chain[-1]] != 1 << operator:
            chain = []
        chain.append(operator)
        chains[operator] = chain
    return [tuple(chain) for operator, chain in chains.items() if chain[0] == operator]


def _cells(graph: FusedGraph) -> Iterator[int]:
    """Yield the bit set of each cell's sequences; no path leaves a cell and comes back."""
    #: For each sequence the bit set of those on every path from it to the end, with itself.
    passed = [0] * len(graph)
    for node in reversed(range(len(graph))):
        common = graph.all_nodes if graph.successors[node] else 0
        for reader in bits(graph.successors[node]):
            common &= passed[reader]
        passed[node] = common | 1 << node
    joins = [n for n, before in enumerate(graph.predecessors) if before.bit_count() > 1]
    inner = 0
    for node in joins:
        if graph.ancestors[node] | graph.descendants[node] | 1 << node != graph.all_nodes:
            inner |= 1 << node
    exits = [n for n in joins if not passed[n] & inner & ~(1 << n) or not inner >> n & 1]
    cells = dict.fromkeys(exits, 0)
    for node in range(len(graph)):
        place = next((n for n in bits(passed[node]) if n in cells), None)
        if place is not None:
            cells[place] |= 1 << node
    for cell in cells.values():
        while True:
            above = below = 0
            for node in bits(cell):
                above |= graph.ancestors[node]
                below |= graph.descendants[node]
            leaving = above & below & ~cell
            staying = [n for n in bits(cell) if not graph.descendants[n] & leaving]
            if len(staying) == cell.bit_count():
                break
            cell = sum(1 << node for node in staying)
        yield cell


def _topological(graph: FusedGraph, groups: Sequence[int]) -> tuple[int, ...] | None:
    """Return the groups in topological order, or None if two wait for each other."""
    order = ordered_groups(groups, graph.predecessors)
    return None if order is None else tuple(groups[place] for place in order)
