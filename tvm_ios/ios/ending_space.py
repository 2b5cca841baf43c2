"""The search space of the dynamic program: states, joined by endings (IOS, sections 3.2 and 3.4).

A *state* is a down-set: with a unit it holds all units that the unit depends on. An *ending*
of a state is a non-empty subset that no edge leaves into the rest of the state; what is left
is a state again. The *groups* of an ending are the connected components of its induced
subgraph. All three are bit sets, kept as NumPy words, because a block of 33 units has millions of
(state, ending) pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tvm_ios.errors import SearchError
from tvm_ios.graph.down_sets import Masks, positions, sizes_of
from tvm_ios.graph.op_graph import bits, successors_of

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pruning:
    """Which endings a search considers (IOS, section 3.4).

    A single unit that is an ending is within any pruning.

    Attributes
    ----------
    r
        The most operators a group; None for no limit.
    s
        The most groups a stage; None for no limit.

    Raises
    ------
    SearchError
        If a limit is below one.
    """

    r: int | None = None
    s: int | None = None

    def __post_init__(self) -> None:
        for letter, limit in (("r", self.r), ("s", self.s)):
            if limit is not None and limit < 1:
                raise SearchError(f"the pruning {letter}={limit} leaves no stage: give 1 or more")


#: Every ending.
UNPRUNED = Pruning()


@dataclass(frozen=True)
class EndingSpace:
    """The graph that the dynamic program walks: states joined by endings.

    Attributes
    ----------
    predecessors
        For each unit the bit set of the units it reads from.
    states
        Down-sets, by size and then by value; the empty one first.
    starts
        The transitions of state ``i`` are ``starts[i]`` to ``starts[i + 1]``.
    ending, remaining
        For each transition the index of its ending, and of the state that remains.
    endings
        The distinct endings, by value.
    first
        For each distinct ending its group that holds the smallest unit.
    without_first
        For each distinct ending the index of what its first group leaves; -1 for nothing.
    groups_count
        For each distinct ending the number of its groups.
    complete
        Whether these are all endings within the pruning.
    """

    predecessors: tuple[int, ...]
    states: Masks
    starts: Integers
    ending: npt.NDArray[np.int32]
    remaining: npt.NDArray[np.int32]
    endings: Masks
    first: Masks
    without_first: Integers
    groups_count: Integers
    complete: bool

    @property
    def transitions(self) -> int:
        """Pairs of a state and an ending of it."""
        return len(self.ending)

    @cached_property
    def groups(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """For each distinct ending its groups: unit numbers, by each group's smallest unit."""
        pieces: list[int] = self.first.tolist()
        units_of = {piece: tuple(bits(piece)) for piece in set(pieces)}
        remainders: list[int] = self.without_first.tolist()
        groups: list[tuple[tuple[int, ...], ...]] = []
        for piece, remainder in zip(pieces, remainders, strict=True):
            # Smaller sets have smaller values, so what is left has its groups already.
            others = groups[remainder] if remainder >= 0 else ()
            groups.append((units_of[piece], *others))
        return tuple(groups)

    @cached_property
    def ending_sizes(self) -> Integers:
        """For each distinct ending the number of its units."""
        return sizes_of(self.endings)

    def index_of(self, ending: int) -> int:
        """The index of a distinct ending.

        Raises
        ------
        SearchError
            If it is no ending of any state, or the pruning excludes it.
        """
        index = int(np.searchsorted(self.endings, np.asarray(ending, self.endings.dtype)))
        if index == len(self.endings) or int(self.endings[index]) != ending:
            raise SearchError(f"the units {list(bits(ending))} are no ending within the pruning")
        return index


def ending_space(
    predecessors: Sequence[int],
    states: Masks,
    endings: Masks,
    ending: Integers,
    of_state: Integers,
    *,
    complete: bool,
) -> EndingSpace:
    """The search space of distinct endings, and of transitions: an ending's index and a state's."""
    remaining = states[of_state] ^ endings[ending]
    starts = np.searchsorted(of_state, np.arange(len(states) + 1)).astype(np.int64)
    first, without_first, count, _ = groups_of(predecessors, endings)
    return EndingSpace(
        predecessors=tuple(predecessors),
        states=states,
        starts=starts,
        ending=ending.astype(np.int32),
        remaining=positions(states, remaining).astype(np.int32),
        endings=endings,
        first=first,
        without_first=without_first,
        groups_count=count,
        complete=complete,
    )


def groups_of(
    predecessors: Sequence[int], endings: Masks
) -> tuple[Masks, Integers, Integers, Integers]:
    """For sorted distinct endings: first group, index of what it leaves, groups, largest group."""
    adjacent = [p | s for p, s in zip(predecessors, successors_of(predecessors), strict=True)]
    first = endings & (~endings + 1)
    before = None
    while before is None or bool((first != before).any()):
        before = first.copy()
        for unit, neighbours in enumerate(adjacent):
            inside = (first & (1 << unit)) != 0
            first[inside] |= endings[inside] & neighbours
    left = endings ^ first
    some = left != 0
    without_first = np.full(len(endings), -1, np.int64)
    without_first[some] = np.searchsorted(endings, left[some])
    count = np.ones(len(endings), np.int64)
    first_size = sizes_of(first)
    largest = first_size.copy()
    unfinished = np.flatnonzero(some)
    remaining = without_first[unfinished]
    while len(unfinished):
        count[unfinished] += 1
        largest[unfinished] = np.maximum(largest[unfinished], first_size[remaining])
        remaining = without_first[remaining]
        unfinished, remaining = unfinished[remaining >= 0], remaining[remaining >= 0]
    return first, without_first, count, largest
