"""Precedence relations that hold in every order whose memory stays within a threshold.

"Destructive improvement" of a lower bound: suppose that an order within a threshold exists, and
draw conclusions until they contradict each other (Klein and Scholl, "Computing lower bounds by
destructive improvement", EJOR 112, 1999). There the conclusions come from the dates of jobs; here
they come from minimum cuts.
"""

from __future__ import annotations

import time
from typing import NamedTuple, Self

from tvm_ios.graph.op_graph import bits
from tvm_ios.memory.exact.minimum_cut import LiveCuts
from tvm_ios.memory.fused_graph import FusedGraph, fused


class _Witness(NamedTuple):
    """A state in which a node can run within the threshold, and its live bytes."""

    state: int
    live: int


class ForcedOrder:
    """Precedence relations between fused nodes that hold in every order within a threshold.

    When node i runs, some set S of nodes has been executed: its ancestors and none of its
    descendants. The live bytes of S plus the bytes that i adds must fit. If they fit for no S that
    contains j, then i runs before j; if for none without j, then after it. Each such relation
    excludes sets for other nodes. A set that fits is kept as a witness for all nodes inside and
    outside of it, so that few minimum cuts decide many pairs.
    """

    def __init__(self, graph: FusedGraph) -> None:
        self.graph = graph
        #: Least bytes that each node adds while it runs: when all others have been executed.
        self._rise = [graph.step(graph.all_nodes & ~(1 << n), n)[1] for n in range(len(graph))]
        self._ancestors, self._descendants = list(graph.ancestors), list(graph.descendants)
        self._relations: list[tuple[int, int]] = []
        self._witnesses: list[list[_Witness]] = [[] for _ in range(len(graph))]

    def copy(self) -> Self:
        """Return an independent copy, to which relations can be added."""
        new = self.__class__.__new__(self.__class__)
        new.graph, new._rise = self.graph, self._rise
        new._ancestors, new._descendants = [*self._ancestors], [*self._descendants]
        new._relations = [*self._relations]
        new._witnesses = [[*witnesses] for witnesses in self._witnesses]
        return new

    def within(self, threshold: int, until: float) -> bool:
        """Add the relations that a threshold in bytes forces; return False if no order fits.

        The threshold must not exceed that of an earlier call. At ``until`` it returns True with
        fewer relations.
        """
        cuts = LiveCuts(self.graph, 0, self.graph.all_nodes)
        for before, node in self._relations:
            cuts.require(before, node)
        everyone = range(len(self.graph))
        for node in everyone:
            if time.perf_counter() > until:
                return True
            if not self._can_run(cuts, node, threshold):
                return False
        forced = -1
        while forced < len(self._relations):
            forced = len(self._relations)
            for node in everyone:
                if time.perf_counter() > until:
                    return True
                if not self._can_run(cuts, node, threshold):
                    return False
                self._relate(cuts, node, threshold, until)
        return True

    def apply(self) -> FusedGraph:
        """Return the graph with the relations as extra dependencies (``waits``)."""
        graph = self.graph
        waits = list(graph.waits) or [0] * len(graph.problem)
        for before, node in self._relations:
            waits[graph.sequences[node][0]] |= 1 << graph.sequences[before][-1]
        return fused(graph.problem, graph.sequences, tuple(waits))

    def _can_run(self, cuts: LiveCuts, node: int, threshold: int) -> bool:
        """Return whether a node can run within the threshold after some set of executed nodes."""
        limit = threshold - self._rise[node]
        self._witnesses[node] = [
            witness
            for witness in self._witnesses[node]
            if witness.live <= limit and self._is_state(witness.state, node)
        ]
        return bool(self._witnesses[node]) or self._look(cuts, node, limit, largest=True)

    def _is_state(self, state: int, node: int) -> bool:
        """Return whether an old witness of a node still obeys all relations."""
        if state & (self._descendants[node] | 1 << node) or self._ancestors[node] & ~state:
            return False
        return all(state >> before & 1 or not state >> n & 1 for before, n in self._relations)

    def _relate(self, cuts: LiveCuts, node: int, threshold: int, until: float) -> None:
        """Test the nodes parallel to this one for a forced order, and add the relations found."""
        limit = threshold - self._rise[node]
        asked = self.graph.all_nodes & ~(1 << node)
        for other in bits(asked):
            if time.perf_counter() > until:
                return
            parallel = not (self._ancestors[node] | self._descendants[node]) >> other & 1
            if parallel and not self._look(cuts, node, limit, inside=1 << other, largest=True):
                self._add(cuts, node, other)
                parallel = False
            if parallel and not self._look(cuts, node, limit, outside=1 << other, largest=False):
                self._add(cuts, other, node)

    def _look(
        self,
        cuts: LiveCuts,
        node: int,
        limit: int,
        *,
        inside: int = 0,
        outside: int = 0,
        largest: bool,
    ) -> bool:
        """Return whether a node fits after a set with ``inside`` and without ``outside``.

        ``largest`` selects the largest of the sets with the fewest live bytes instead of the
        smallest.
        """
        for state, _ in self._witnesses[node]:
            if not inside & ~state and not outside & state and (inside or outside):
                return True
        inside, outside = inside | self._ancestors[node], outside | 1 << node
        fewest = cuts.fewest(inside, outside, largest=largest)
        live = self.graph.live(fewest)
        if live <= limit:
            self._witnesses[node].append(_Witness(fewest, live))
        return live <= limit

    def _add(self, cuts: LiveCuts, before: int, node: int) -> None:
        cuts.require(before, node)
        self._relations.append((before, node))
        above = self._ancestors[before] | 1 << before
        below = self._descendants[node] | 1 << node
        for n in bits(below):
            self._ancestors[n] |= above
        for n in bits(above):
            self._descendants[n] |= below
