"""Successors, ancestors and descendants of nodes as bit sets, from their predecessors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from tvm_ios.graph.op_graph import bits, closures, successors_of


class Precedence:
    """Nodes numbered in topological order, some of which read from others."""

    #: For each node the bit set of those that it reads from: a field or a property of who inherits
    #: this, which is why the type is left open.
    predecessors: Any

    def __len__(self) -> int:
        return len(self.predecessors)

    @cached_property
    def successors(self) -> tuple[int, ...]:
        """For each node the bit set of those that read from it."""
        return successors_of(self.predecessors)

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """For each node the bit set of all that it depends on, itself excluded."""
        return closures(self.predecessors, range(len(self)))

    @cached_property
    def descendants(self) -> tuple[int, ...]:
        """For each node the bit set of all that depend on it, itself excluded."""
        return closures(self.successors, reversed(range(len(self))))

    @property
    def all_nodes(self) -> int:
        """The bit set of every node."""
        return (1 << len(self)) - 1


def ordered_groups(groups: Sequence[int], predecessors: Sequence[int]) -> list[int] | None:
    """Return the places of disjoint groups of nodes in topological order.

    Return None if two groups wait for each other. Groups and predecessors are bit sets.
    """
    needs = [0] * len(groups)
    for place, group in enumerate(groups):
        for node in bits(group):
            needs[place] |= predecessors[node] & ~group
    # Most are in order already when they are sorted by their last nodes.
    waiting = sorted(range(len(groups)), key=lambda place: groups[place].bit_length())
    done, order = 0, list[int]()
    while waiting:
        left: list[int] = []
        for place in waiting:
            if needs[place] & ~done:
                left.append(place)
            else:
                done |= groups[place]
                order.append(place)
        if len(left) == len(waiting):
            return None
        waiting = left
    return order
