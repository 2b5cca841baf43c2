"""Nodes whose executed sets are states, and what running one more changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tvm_ios.memory.precedence import Precedence


class StateGraph(Precedence, ABC):
    """A graph that says what running one more node changes in a state.

    A *state* is a bit set of executed nodes that holds with a node all that it depends on.
    """

    @abstractmethod
    def step(self, state: int, node: int) -> tuple[int, int]:
        """What running a node changes.

        Parameters
        ----------
        state
            The nodes executed before, which hold what the node depends on.
        node
            A node that is not among them.

        Returns
        -------
        change, rise
            Bytes of the transient footprint after the node, and of the largest stable footprint
            while it runs, both above the transient footprint before it. The more has been
            executed before, the smaller both are.
        """

    def run(self, state: int, nodes: Sequence[int]) -> tuple[int, int]:
        """What running some nodes in order changes, as :meth:`step`.

        Parameters
        ----------
        state
            The nodes executed before.
        nodes
            The nodes in the order in which they run.
        """
        change = largest = 0
        for node in nodes:
            more, rise = self.step(state, node)
            largest = max(largest, change + rise)
            change += more
            state |= 1 << node
        return change, largest
