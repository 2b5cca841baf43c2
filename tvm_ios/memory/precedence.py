"""What follows from the predecessors of nodes: bit sets of all that is after and before each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from tvm_ios.graph.down_sets import successors_of
from tvm_ios.graph.op_graph import bits


class Precedence:
    """Nodes numbered in topological order, of which some read from others."""

    #: For each node the bit set of those that it reads from: a field or a property of who inherits
    #: this, which is why the type is left open.
    predecessors: Any

    def __len__(self) -> int:
        return len(self.predecessors)

    @cached_property
    def successors(self) -> tuple[int, ...]:
        """For each node the bit set of those that read from it."""
        return tuple(successors_of(self.predecessors))

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """For each node the bit set of all that it depends on, itself excluded."""
        return _closures(self.predecessors, range(len(self)))

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        """For each node the bit set of all that depend on it, itself excluded."""
        return _closures(self.successors, reversed(range(len(self))))

    @property
    def all_nodes(self) -> int:
        """The bit set of every node."""
        return (1 << len(self)) - 1


def _closures(neighbours: Sequence[int], order: Iterable[int]) -> tuple[int, ...]:
    """For each node all that can be reached from it, if each comes after its neighbours."""
    closed = [0] * len(neighbours)
    for node in order:
        mask = neighbours[node]
        for near in bits(neighbours[node]):
            mask |= closed[near]
        closed[node] = mask
    return tuple(closed)
