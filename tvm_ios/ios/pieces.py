"""Enumeration of the small connected convex sets of a graph, of which pruned endings are unions."""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.graph.op_graph import bits, closures, successors_of

#: With more pieces than this, enumerating pairs of nested states is faster.
_MOST_PIECES = 3000


def connected_pieces(predecessors: Sequence[int], most: int) -> list[int] | None:
    """Enumerate the connected convex sets of at most so many units, as bit sets by value.

    A set is convex if no path leaves it and comes back; exactly these are the ending of some state.
    ``predecessors`` are bit sets in topological order. Return None if there are so many sets that
    they are of no use.
    """
    successors, units = successors_of(predecessors), range(len(predecessors))
    above, below = closures(predecessors, units), closures(successors, reversed(units))
    connected = {1 << unit for unit in units}
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
        # Sets that are not convex count as well: they take time too.
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
