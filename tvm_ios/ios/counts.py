"""Size of the search: the figures of the paper's table of search spaces (IOS, table 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tvm_ios.graph.down_sets import Masks, down_sets, positions
from tvm_ios.graph.op_graph import bits, closures, successors_of

#: ``connected``: any ending, its groups its connected components; what the search uses.
#: ``rooted``: every group is one unit and all that depends on it inside the state.
GroupRule = Literal["connected", "rooted"]


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """The size of the search of one block without pruning, concurrent execution only.

    ``operators`` is n and ``width`` is d, the most units of which none depends on another.
    ``states`` include the empty set; ``transitions`` are pairs of a state and a non-empty ending;
    ``schedules`` are ways from all units to none.
    """

    operators: int
    width: int
    states: int
    transitions: int
    schedules: int

    @property
    def bound(self) -> float:
        """The most transitions of a block of n units and width d: C(n/d + 2, 2) to the power of d.

        This is IOS's theorem (section 3.3). It counts the empty ending too, so only d paths of
        equal length side by side, with no unit before or after them, come near it.
        """
        length = self.operators / self.width
        return ((length + 2) * (length + 1) / 2) ** self.width


def count_block(predecessors: Sequence[int], groups: GroupRule = "connected") -> BlockCounts:
    """Count the states, transitions and schedules of a block.

    ``predecessors`` are bit sets in topological order. ``groups`` says which groups an ending may
    have; by either rule a last unit can always go alone, so the states are the same. Raise
    SearchError if the order is not topological or the block has too many states.
    """
    states = down_sets(predecessors)
    descendants = _descendants(predecessors)
    schedules = np.zeros(len(states), dtype=object)
    schedules[0] = 1
    transitions = 0
    for i in range(1, len(states)):
        if groups == "connected":
            remaining = np.flatnonzero((states[:i] & ~states[i]) == 0)
        else:
            endings = _rooted_endings(states[i], descendants)
            remaining = positions(states, endings ^ states[i])
        transitions += len(remaining)
        schedules[i] = schedules[remaining].sum()
    return BlockCounts(
        operators=len(predecessors),
        width=width(predecessors),
        states=len(states),
        transitions=transitions,
        schedules=int(schedules[-1]),
    )


def width(predecessors: Sequence[int]) -> int:
    """Return the size of the largest antichain (IOS, definition 3).

    By Dilworth's theorem it is the number of units less a largest matching of the units to units
    that depend on them.
    """
    descendants = _descendants(predecessors)
    matched_to: dict[int, int] = {}

    def augment(unit: int, tried: set[int]) -> bool:
        for below in bits(descendants[unit] & ~(1 << unit)):
            if below not in tried:
                tried.add(below)
                if below not in matched_to or augment(matched_to[below], tried):
                    matched_to[below] = unit
                    return True
        return False

    return len(predecessors) - sum(augment(unit, set()) for unit in range(len(predecessors)))


def _rooted_endings(state: int, descendants: list[int]) -> Masks:
    """Return the non-empty unions of pairwise disjoint groups "a unit and its descendants"."""
    unions: Masks = np.zeros(1, dtype=np.uint64 if len(descendants) <= 63 else object)
    for unit in bits(int(state)):
        group = descendants[unit] & int(state)
        unions = np.concatenate([unions, unions[(unions & group) == 0] | group])
    return unions[1:]


def _descendants(predecessors: Sequence[int]) -> list[int]:
    """Return for each unit the bit set of itself and all that depends on it."""
    below = closures(successors_of(predecessors), reversed(range(len(predecessors))))
    return [mask | 1 << unit for unit, mask in enumerate(below)]
