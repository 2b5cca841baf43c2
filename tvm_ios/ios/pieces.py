"""The small connected convex sets of a graph: what pruned endings are made of."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.graph.down_sets import successors_of
from tvm_ios.graph.op_graph import bits

#: With more pieces than this, going through all nested states is the faster way.
_MOST_PIECES = 3000


def connected_pieces(predecessors: Sequence[int], most: int) -> list[int] | None:
    """Enumerate the connected convex sets of at most so many units.

    A set is convex if no path leaves it and comes back; exactly these are the ending of some
    state.

    Parameters
    ----------
    predecessors
        For each unit the bit set of the units it reads from, in topological order.
    most
        Units a set, at least one.

    Returns
    -------
    list of int
        Bit sets by value, or None if there are so many that they are of no use.
    """
    successors = successors_of(predecessors)
    above, below = _closures(predecessors), _closures_down(successors)
    connected = {1 << unit for unit in range(len(predecessors))}
    frontier = connected
    for _ in range(most - 1):
        grown: set[int] = set()
        for piece in frontier:
            around = 0
            for unit in bits(piece):
                around |= predecessors[unit] | successors[unit]
            grown.update(piece | 1 << unit for unit in bits(around & ~piece))
        frontier = grown
        connected |= grown
        # Sets that are not convex yet count too: they are the work that was done.
        if len(connected) > 4 * _MOST_PIECES:
            return None
        if not frontier:
            break
    convex: list[int] = []
    for piece in sorted(connected):
        over = under = 0
        for unit in bits(piece):
            over |= above[unit]
            under |= below[unit]
        if not over & under & ~piece:
            convex.append(piece)
    return convex if len(convex) <= _MOST_PIECES else None


def _closures(predecessors: Sequence[int]) -> list[int]:
    closed: list[int] = []
    for before in predecessors:
        mask = before
        for p in bits(before):
            mask |= closed[p]
        closed.append(mask)
    return closed


def _closures_down(successors: Sequence[int]) -> list[int]:
    closed = [0] * len(successors)
    for unit in reversed(range(len(successors))):
        closed[unit] = successors[unit]
        for s in bits(successors[unit]):
            closed[unit] |= closed[s]
    return closed
