"""The states of a graph that can be reached within a threshold of bytes."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.graph import bits, mask_of
from tvm_ios.memory.fused_graph import FusedGraph
from tvm_ios.memory.minimum_cut import fewest_live


@dataclass(slots=True)
class _Reached:
    """What is known of a state.

    Attributes
    ----------
    live
        Its transient footprint.
    ready
        The nodes that can be run (backwards: that can have been run last).
    origin, moves
        From which state it was reached, and by which nodes.
    above
        The state next to it on its chain: of those that it was reached from, the nearest that has
        fewer live bytes.
    dropped
        Whether another state is at least as good as this one and all that came from it.
    """

    live: int
    ready: int
    origin: int | None
    moves: tuple[int, ...]
    above: int | None
    dropped: bool = False


class StateSearch:
    """A search from one state to another whose threshold may be raised and never lowered.

    Three things keep it small; all rest on two facts: the live bytes are a submodular function of
    the state, and what a node adds to them only falls as more has been executed.

    - A node that does not add to the live bytes, and fits, is run at once.
    - From state A, let Y be reached with no more live bytes than A, and no state between them have
      fewer than Y. Then whatever leads from A to the goal also leads there from Y, so that all
      else that was reached from A is dropped. If a state between them has fewer, it is a minimum
      cut, it can be reached as well, and takes the place of Y.
    - What did not fit is looked at again when the threshold is raised.

    Parameters
    ----------
    graph
        Of nodes.
    low, high
        Where orders begin and end: bit sets of executed nodes.
    backward
        Whether to search from the end; then "adding" a node means to take it back.
    """

    def __init__(self, graph: FusedGraph, low: int, high: int, *, backward: bool = False) -> None:
        self.graph, self.backward = graph, backward
        self._low, self._high = low, high
        start, self._goal = (high, low) if backward else (low, high)
        #: Nodes that must have been moved before one can be, and those that it may free.
        self._needs = graph.successors if backward else graph.predecessors
        self._frees = graph.predecessors if backward else graph.successors
        self._reached: dict[int, _Reached] = {}
        self._fewest: list[tuple[int, int, int]] = []
        self._deepest: list[tuple[int, int, int]] = []
        self._refused: list[tuple[int, int]] = []
        self._waiting: set[int] = set()
        self._turn = 0
        self._reached[start] = _Reached(graph.live(start), self._ready(start), None, (), None)
        self._open(start)

    @property
    def states(self) -> int:
        """How many states have been reached."""
        return len(self._reached)

    @property
    def found(self) -> bool:
        """Whether the goal has been reached."""
        return self._goal in self._reached

    def next_threshold(self) -> int | None:
        """The smallest footprint that was refused, if anything was: no order needs fewer bytes.

        Holds when :meth:`run` has nothing left to look at.
        """
        while self._refused and not self._counts(self._refused[0][1]):
            heapq.heappop(self._refused)
        return self._refused[0][0] if self._refused else None

    def run(self, threshold: int, most: int) -> bool:
        """Look at states.

        Parameters
        ----------
        threshold
            Bytes that no footprint may exceed; never smaller than in an earlier call.
        most
            How many states to look at.

        Returns
        -------
        bool
            Whether there may be more to look at within the threshold.
        """
        while self._refused and self._refused[0][0] <= threshold:
            self._open(heapq.heappop(self._refused)[1])
        for _ in range(most):
            if self.found:
                return False
            state = self._next()
            if state is None:
                return False
            self._expand(state, threshold)
        return True

    def order(self) -> tuple[int, ...]:
        """The nodes from the beginning to the end, once the goal has been found."""
        moves = self._moves(None, self._goal)
        return tuple(reversed(moves)) if self.backward else moves

    def _next(self) -> int | None:
        """Fewest bytes and deepest in turn."""
        while self._fewest or self._deepest:
            self._turn ^= 1
            heap = self._deepest if self._turn else self._fewest
            if not heap:
                continue
            state = heapq.heappop(heap)[2]
            if state in self._waiting and self._counts(state):
                self._waiting.discard(state)
                return state
        return None

    def _open(self, state: int) -> None:
        self._waiting.add(state)
        live, depth = self._reached[state].live, (state ^ self._goal).bit_count()
        heapq.heappush(self._fewest, (live, depth, state))
        heapq.heappush(self._deepest, (depth, live, state))

    def _counts(self, state: int) -> bool:
        """Whether nothing at least as good takes the place of a state."""
        at: int | None = state
        while at is not None:
            if self._reached[at].dropped:
                return False
            at = self._reached[at].above
        return True

    def _expand(self, state: int, threshold: int) -> None:
        known = self._reached[state]
        moves, *closed = self._close(state, known.live, known.ready, threshold)
        if moves:
            self._reach(state, moves, *closed)
            return
        refused: int | None = None
        for node in bits(known.ready):
            change, rise = self._step(state, node)
            if known.live + rise > threshold:
                refused = min(refused or known.live + rise, known.live + rise)
                continue
            after = state ^ 1 << node
            ready = self._ready_after(after, node, known.ready)
            moves, *closed = self._close(after, known.live + change, ready, threshold)
            self._reach(state, [node, *moves], *closed)
            if not self._counts(state):
                return
        if refused is not None:
            heapq.heappush(self._refused, (refused, state))

    def _close(
        self, state: int, live: int, ready: int, threshold: int
    ) -> tuple[list[int], int, int, int]:
        """Run at once what adds nothing: these nodes, and the state, live bytes, ready nodes."""
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
        return moves, state, live, ready

    def _reach(self, origin: int, moves: Sequence[int], state: int, live: int, ready: int) -> None:
        if state in self._reached:
            return
        self._reached[state] = _Reached(live, ready, origin, tuple(moves), origin)
        if self._reached[origin].live < live or not self._commit(state):
            self._open(state)

    def _commit(self, state: int) -> bool:
        """Put a state, or a better one, in the place of those above it with no fewer live bytes.

        Returns
        -------
        bool
            False if a better one is known already and does not count; then nothing is done.
        """
        made = self._reached[state]
        top = made.above
        assert top is not None
        while (above := self._reached[top].above) is not None:
            if self._reached[above].live < made.live:
                break
            top = above
        low, high = (state, top) if self.backward else (top, state)
        best = fewest_live(self.graph, low, high, largest=not self.backward)
        if best != state:
            if best in self._reached and not self._counts(best):
                return False
            between = best ^ top
            moves = tuple(node for node in self._moves(top, state) if between >> node & 1)
            if best in self._reached:
                self._reached[best].origin, self._reached[best].moves = top, moves
                self._reached[best].above = above
                self._reached[top].dropped = True
                return True
            live = self.graph.live(best)
            self._reached[best] = _Reached(live, self._ready(best), top, moves, top)
            return self._commit(best)
        self._reached[top].dropped = True
        made.above = above
        if above is None:
            for heap in (self._fewest, self._deepest, self._refused):
                heap.clear()
            self._waiting.clear()
        self._open(state)
        return True

    def _moves(self, begin: int | None, end: int) -> tuple[int, ...]:
        """The nodes that lead from one state to another."""
        parts: list[tuple[int, ...]] = []
        at = end
        while at != begin and (origin := self._reached[at].origin) is not None:
            parts.append(self._reached[at].moves)
            at = origin
        return tuple(node for part in reversed(parts) for node in part)

    def _step(self, state: int, node: int) -> tuple[int, int]:
        if not self.backward:
            return self.graph.step(state, node)
        change, rise = self.graph.step(state ^ 1 << node, node)
        return -change, rise - change

    def _is_ready(self, state: int, node: int) -> bool:
        undone = state if self.backward else ~state
        return not self._needs[node] & undone

    def _ready(self, state: int) -> int:
        left = state & ~self._low if self.backward else self._high & ~state
        return mask_of(node for node in bits(left) if self._is_ready(state, node))

    def _ready_after(self, state: int, node: int, ready: int) -> int:
        """The ready nodes of a state in which a node of the ready ones has just been moved."""
        ready ^= 1 << node
        undone = state if self.backward else ~state
        for other in bits(self._frees[node] & (self._high & ~self._low)):
            if not self._needs[other] & undone:
                ready |= 1 << other
        return ready
