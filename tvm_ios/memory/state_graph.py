"""Base class of graphs that say how many bytes running one more node changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tvm_ios.memory.precedence import Precedence


class StateGraph(Precedence, ABC):
    """A graph that says how many bytes running one more node changes in a state.

    A *state* is a bit set of executed nodes that contains, with a node, all its ancestors.
    """

    @abstractmethod
    def step(self, state: int, node: int) -> tuple[int, int]:
        """Return the bytes that running a node changes: ``(change, rise)``.

        They are the transient footprint after the node and the largest stable footprint while it
        runs, both above the transient footprint before it. The more nodes have been executed
        before, the smaller both are.
        """

    def run(self, state: int, nodes: Sequence[int]) -> tuple[int, int]:
        """Return ``(change, rise)`` of running nodes in order from a state, as :meth:`step`."""
        change = largest = 0
        for node in nodes:
            more, rise = self.step(state, node)
            largest = max(largest, change + rise)
            change += more
            state |= 1 << node
        return change, largest
