"""Every state of the dynamic program and every ending of it (IOS, sections 3.2 and 3.4).

A *state* is a down-set: with a unit it holds all units that the unit depends on. An *ending*
of a state is a non-empty subset that no edge leaves into the rest of the state; what is left
is a state again. The *groups* of an ending are the connected components of its induced
subgraph. All three are bit sets; the enumeration handles them as NumPy words, because a block
of 33 units has millions of (state, ending) pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tvm_ios.errors import SearchError
from tvm_ios.graph.down_sets import Masks, down_sets, positions, sizes_of
from tvm_ios.graph.op_graph import bits, mask_of, successors_of
from tvm_ios.ios.pieces import connected_pieces

Integers = npt.NDArray[np.int64]

#: Some forty bytes each while they are sorted: beyond this a search would take gigabytes.
_MOST_TRANSITIONS = 50_000_000
#: States handled together; small enough that their endings stay in the cache.
_CHUNK = 512


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


def enumerate_endings(predecessors: Sequence[int], pruning: Pruning = UNPRUNED) -> EndingSpace:
    """Enumerate the states of a graph and, of each state, the endings within a pruning.

    Parameters
    ----------
    predecessors
        For each unit the bit set of the units it reads from, in topological order.
    pruning
        Limits on the groups; both limits None means every ending.

    Raises
    ------
    SearchError
        If the numbering is not topological, or there are too many states or transitions.
    """
    states = down_sets(predecessors)
    pieces = None if pruning.r is None else connected_pieces(predecessors, pruning.r)
    if pieces is None:
        all_endings, of_state = _from_nested_states(predecessors, states, pruning)
    else:
        all_endings, of_state = _from_pieces(predecessors, states, pieces, pruning)
    endings, ending = np.unique(all_endings, return_inverse=True)
    del all_endings
    remaining = states[of_state] ^ endings[ending]
    starts = np.searchsorted(of_state, np.arange(len(states) + 1)).astype(np.int64)
    first, without_first, count, _ = _groups(predecessors, endings)
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
    )


def _from_pieces(
    predecessors: Sequence[int], states: Masks, pieces: Sequence[int], pruning: Pruning
) -> tuple[Masks, Integers]:
    """Build endings as unions of small connected ones; cheap when few pieces exist.

    Two disjoint connected endings of one state are never joined by an edge: its head would be
    a successor, inside the state, of the first, and so belong to the first.
    """
    successors = successors_of(predecessors)
    closures = [p | mask_of(i for u in bits(p) for i in bits(successors[u])) for p in pieces]
    most = len(predecessors) if pruning.s is None else pruning.s
    endings: list[Masks] = []
    of_state: list[Integers] = []
    total = 0
    for begin in range(0, len(states), _CHUNK):
        chunk = states[begin : begin + _CHUNK]
        owner = np.arange(len(chunk))
        union: Masks = np.zeros_like(chunk)
        count = np.zeros(len(chunk), np.int16)
        for piece, closure in zip(pieces, closures, strict=True):
            ends = (chunk & closure) == piece
            if not ends.any():
                continue
            fits = np.flatnonzero(ends[owner] & ((union & piece) == 0) & (count < most))
            owner = np.concatenate([owner, owner[fits]])
            union = np.concatenate([union, union[fits] | piece])
            count = np.concatenate([count, count[fits] + 1])
        order = len(chunk) + np.argsort(owner[len(chunk) :], kind="stable")
        endings.append(union[order])
        of_state.append(owner[order] + begin)
        total = _counted(total + len(order))
    return np.concatenate(endings), np.concatenate(of_state)


def _from_nested_states(
    predecessors: Sequence[int], states: Masks, pruning: Pruning
) -> tuple[Masks, Integers]:
    """Take the difference of every two nested states; needed when groups may be large."""
    all_endings: list[Masks] = []
    of_state: list[Integers] = []
    total = 0
    for begin in range(0, len(states), _CHUNK):
        chunk = states[begin : begin + _CHUNK]
        parts = [state ^ _below(states, state) for state in chunk]
        endings = np.concatenate(parts)
        owner = np.repeat(np.arange(begin, begin + len(chunk)), [len(part) for part in parts])
        if pruning != UNPRUNED:
            distinct, index = np.unique(endings, return_inverse=True)
            _, _, count, largest = _groups(predecessors, distinct)
            legal = np.ones(len(distinct), np.bool_)
            legal &= count <= (pruning.s or len(predecessors))
            legal &= largest <= (pruning.r or len(predecessors))
            endings, owner = endings[legal[index]], owner[legal[index]]
        all_endings.append(endings)
        of_state.append(owner)
        total = _counted(total + len(endings))
    return np.concatenate(all_endings), np.concatenate(of_state)


def _below(states: Masks, state: Any) -> Masks:
    """Every state that is a proper subset of a state."""
    below = states[(states & ~state) == 0]
    return below[:-1]


def _groups(
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


def _counted(transitions: int) -> int:
    if transitions > _MOST_TRANSITIONS:
        raise SearchError(
            f"a block has more than {_MOST_TRANSITIONS} transitions: "
            "give a smaller r or s, or cut the model into smaller blocks"
        )
    return transitions
