"""Nodes whose executed sets are states, and the bytes that are live in each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tvm_ios.memory.precedence import Precedence


class StateGraph(Precedence, ABC):
    """A graph that says what is live in a state, and what running one more node changes.

    A *state* is a bit set of executed nodes that holds with a node all that it depends on.
    """

    @abstractmethod
    def live(self, state: int) -> int:
        """The transient footprint of a state: the bytes still needed after it."""

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

    def peak_from(self, low: int, nodes: Sequence[int]) -> int:
        """The largest stable footprint, in bytes, while some nodes run in order.

        Parameters
        ----------
        low
            The nodes executed before.
        nodes
            The nodes in the order in which they run.
        """
        live, peak = self.live(low), 0
        for node in nodes:
            change, rise = self.step(low, node)
            peak = max(peak, live + rise)
            live += change
            low |= 1 << node
        return peak
