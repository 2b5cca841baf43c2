"""Search of the states of a graph that are reachable within a threshold of bytes."""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from typing import NamedTuple

from tvm_ios.graph.op_graph import bits, mask_of
from tvm_ios.memory.exact.minimum_cut import fewest_live
from tvm_ios.memory.fused_graph import FusedGraph


class _Arrival(NamedTuple):
    """A newly reached state with its live bytes and ready nodes, and the moves that led to it."""

    moves: tuple[int, ...]
    state: int
    live: int
    ready: int


@dataclass(frozen=True, slots=True)
class _Reached:
    """A reached state: its live bytes, its ready nodes, and the moves that led to it.

    It was reached from ``origin`` by running ``moves``. Backwards, ready nodes are those that can
    be last. ``live`` is the transient footprint.
    """

    live: int
    ready: int
    origin: int | None
    moves: tuple[int, ...]


class StateSearch:
    """A search from one state to another, forward or backward, with a threshold that only rises.

    A state replaces another only if the goal can be reached from both or from neither. That rests
    on two facts: the live bytes are a submodular function of the state, and the bytes that a node
    adds only fall as more has been executed.

    - A node that does not add to the live bytes, and fits, is run at once.
    - From state A, let Y be reached with no more live bytes than A, and no state between them have
      fewer than Y. Then Y replaces A: a way X1, X2, ... from A to the goal is also a way
      X1 + Y, X2 + Y, ... from Y, with no more bytes anywhere. If a state between them has fewer
      than Y, the minimum cut between them has the fewest; it can be reached as well and replaces A
      instead. Such a Y is looked for right after each state, and everywhere for the state where the
      search began, which then restarts from Y.
    - Nodes that did not fit are tried again when the threshold is raised.
    """

    def __init__(self, graph: FusedGraph, low: int, high: int, *, backward: bool = False) -> None:
        self.graph, self.backward = graph, backward
        self._within = high & ~low
        self._root, self._goal = (high, low) if backward else (low, high)
        #: Nodes that must have been moved before one can be, and those that it may free.
        self._needs = graph.successors if backward else graph.predecessors
        self._frees = graph.predecessors if backward else graph.successors
        self._done: list[int] = []
        self._begin(_Arrival((), self._root, graph.live(self._root), self._ready(self._root)))

    @property
    def states(self) -> int:
        """Number of states reached."""
        return len(self._reached)

    @property
    def finished(self) -> bool:
        """True once the goal has been reached."""
        return self._goal in self._reached

    def next_threshold(self) -> int | None:
        """The smallest refused footprint, or None.

        It is a lower bound of the peak once :meth:`run` has returned False.
        """
        return self._refused[0][0] if self._refused else None

    def run(self, threshold: int, most: int, until: float) -> bool:
        """Expand at most ``most`` states within a threshold; return whether more may be left.

        The threshold, in bytes, must not fall between calls. Stops at ``until``.
        """
        while self._refused and self._refused[0][0] <= threshold:
            self._open(heapq.heappop(self._refused)[1])
        for _ in range(most):
            if self.finished:
                return False
            state = self._next()
            if state is None:
                return False
            self._expand(state, threshold, until)
            if time.perf_counter() > until:
                return True
        return True

    def order(self) -> tuple[int, ...]:
        """Return the nodes from the beginning to the end, once the goal has been reached."""
        moves = [*self._done, *self._way(self._goal)]
        return tuple(reversed(moves)) if self.backward else tuple(moves)

    def _begin(self, root: _Arrival) -> None:
        """Restart the search from one state and forget all others."""
        self._root = root.state
        self._done += root.moves
        self._reached = {root.state: _Reached(root.live, root.ready, None, ())}
        self._fewest: list[tuple[int, int, int]] = []
        self._deepest: list[tuple[int, int, int]] = []
        self._refused: list[tuple[int, int]] = []
        self._waiting: set[int] = set()
        self._turn = False
        self._open(root.state)

    def _open(self, state: int) -> None:
        self._waiting.add(state)
        live, depth = self._reached[state].live, (state ^ self._goal).bit_count()
        heapq.heappush(self._fewest, (live, depth, state))
        heapq.heappush(self._deepest, (depth, live, state))

    def _next(self) -> int | None:
        """Pop a waiting state: in turn the one with the fewest bytes and the deepest one."""
        while self._fewest or self._deepest:
            self._turn = not self._turn
            heap = self._deepest if self._turn else self._fewest
            if heap and (state := heapq.heappop(heap)[2]) in self._waiting:
                self._waiting.remove(state)
                return state
        return None

    def _expand(self, state: int, threshold: int, until: float) -> None:
        reached = self._reached[state]
        at = self._close(_Arrival((), state, reached.live, reached.ready), threshold)
        if at.moves:
            self._reach(state, at)
            return
        expanded = self._children(at, threshold, until)
        if expanded is None:
            self._open(state)
            return
        children, refused = expanded
        for child in children:
            if child.live <= at.live:
                self._reach(state, self._fewest_between(state, child.moves, child))
                return
        if refused is not None:
            heapq.heappush(self._refused, (refused, state))
        for child in children:
            if self._reach(state, child):
                return

    def _reach(self, origin: int, arrival: _Arrival) -> bool:
        """Record a state; return whether the search restarted from it or from a better one."""
        if arrival.state in self._reached:
            return False
        self._reached[arrival.state] = _Reached(arrival.live, arrival.ready, origin, arrival.moves)
        if arrival.live > self._reached[self._root].live:
            self._open(arrival.state)
            return False
        self._begin(self._fewest_between(self._root, self._way(arrival.state), arrival))
        return True

    def _children(
        self, at: _Arrival, threshold: int, until: float
    ) -> tuple[list[_Arrival], int | None] | None:
        """Return the states after one more node, and the smallest footprint that did not fit.

        Return None if ``until`` comes before all are known.
        """
        children: list[_Arrival] = []
        refused: int | None = None
        for node in bits(at.ready):
            if time.perf_counter() > until:
                return None
            change, rise = self._step(at.state, node)
            need = at.live + rise
            if need > threshold:
                refused = need if refused is None else min(refused, need)
                continue
            after = at.state ^ 1 << node
            ready = self._ready_after(after, node, at.ready)
            children.append(
                self._close(_Arrival((node,), after, at.live + change, ready), threshold)
            )
        return children, refused

    def _close(self, at: _Arrival, threshold: int) -> _Arrival:
        """Run at once every ready node that fits and adds no live bytes."""
        _, state, live, ready = at
        moves: list[int] = []
        count = -1
        while count < len(moves):
            count = len(moves)
            for node in bits(ready):
                change, rise = self._step(state, node)
                if change <= 0 and live + rise <= threshold:
                    moves.append(node)
                    live += change
                    state ^= 1 << node
                    ready = self._ready_after(state, node, ready)
        return _Arrival(at.moves + tuple(moves), state, live, ready)

    def _fewest_between(self, begin: int, moves: tuple[int, ...], end: _Arrival) -> _Arrival:
        """Return the state with the fewest live bytes between two, as an arrival from the first."""
        low, high = (end.state, begin) if self.backward else (begin, end.state)
        best = fewest_live(self.graph, low, high, largest=not self.backward)
        between = best ^ begin
        way = tuple(node for node in moves if between >> node & 1)
        if best == end.state:
            return end._replace(moves=way)
        return _Arrival(way, best, self.graph.live(best), self._ready(best))

    def _way(self, state: int) -> tuple[int, ...]:
        """Return the nodes that lead to a state from the root of the search."""
        parts: list[tuple[int, ...]] = []
        while (origin := self._reached[state].origin) is not None:
            parts.append(self._reached[state].moves)
            state = origin
        return tuple(node for part in reversed(parts) for node in part)

    def _step(self, state: int, node: int) -> tuple[int, int]:
        if not self.backward:
            return self.graph.step(state, node)
        change, rise = self.graph.step(state ^ 1 << node, node)
        return -change, rise - change

    def _ready(self, state: int) -> int:
        undone = state if self.backward else ~state
        left = undone & self._within
        return mask_of(node for node in bits(left) if not self._needs[node] & undone)

    def _ready_after(self, state: int, node: int, ready: int) -> int:
        """Return the ready nodes after moving one of the ready nodes."""
        ready ^= 1 << node
        undone = state if self.backward else ~state
        for other in bits(self._frees[node] & self._within):
            if not self._needs[other] & undone:
                ready |= 1 << other
        return ready
