"""Search spaces of the dynamic program: states, joined by endings (IOS, sections 3.2 and 3.4).

A *state* is a down-set: with a unit it holds all units that the unit depends on. An *ending* of a
state is a non-empty subset that no edge leaves into the rest of the state; what is left is a state
again. The *groups* of an ending are the connected components of its induced subgraph. All three are
bit sets, kept as NumPy words, because a block of 33 units has millions of (state, ending) pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tvm_ios.errors import SearchError
from tvm_ios.graph.branch_symmetry import BranchSymmetry
from tvm_ios.graph.down_sets import Masks, positions, sizes_of, word_type
from tvm_ios.graph.op_graph import bits, successors_of

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pruning:
    """Limits on the endings that a search considers (IOS, section 3.4).

    A single unit is never pruned, nor are the waves: all units that can run once those before have
    run, which are the stages of the greedy schedule.

    Attributes
    ----------
    r
        The most operators of a group; None for no limit.
    s
        The most groups of a stage; None for no limit.

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


#: No limits: every ending is considered.
UNPRUNED = Pruning()


@dataclass(frozen=True)
class EndingSpace:
    """The graph that the dynamic program walks: states joined by endings.

    Where a block has equal branches, a state represents all that differ from it only by which of
    these they hold, and so does an ending: see :mod:`tvm_ios.graph.branch_symmetry`.
    """

    #: For each unit the bit set of the units it reads from.
    predecessors: tuple[int, ...]
    #: Down-sets, by size and then by value; the empty one first.
    states: Masks
    #: The transitions of state ``i`` are ``starts[i]`` to ``starts[i + 1]``.
    starts: Integers
    #: For each transition the index of its ending, and of the state that remains.
    ending: npt.NDArray[np.int32]
    remaining: npt.NDArray[np.int32]
    #: The distinct endings, by value.
    endings: Masks
    #: The endings, and all that is left of them as their groups are removed one by one, by value.
    parts: Masks
    #: For each part its group that holds the smallest unit.
    first: Masks
    #: For each part the index of the part that is left without its first group; -1 for none.
    without_first: Integers
    #: For each distinct ending the number of its groups.
    groups_count: Integers
    #: Whether these are all endings within the pruning.
    complete: bool
    #: Which branches of the block are equal, or None.
    symmetry: BranchSymmetry | None
    #: With a symmetry, for each transition the units of its state that end it; else empty.
    leaving: Masks

    @property
    def transitions(self) -> int:
        """The number of pairs of a state and an ending of it."""
        return len(self.ending)

    def units_leaving(self, transition: int, state: int) -> int:
        """Return the bit set of units that leave a state by a transition of its representative."""
        if self.symmetry is None:
            return int(self.endings[self.ending[transition]])
        return self.symmetry.moved(state, int(self.leaving[transition]))

    @cached_property
    def groups(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The groups of each distinct ending, as unit numbers, by each group's smallest unit."""
        return self.groups_of(range(len(self.predecessors)))

    def groups_of(self, units: Sequence[int]) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Return the groups of each distinct ending, with the unit numbers that ``units`` gives."""
        pieces: list[int] = self.first.tolist()
        units_of = {piece: tuple([units[u] for u in bits(piece)]) for piece in set(pieces)}
        remainders: list[int] = self.without_first.tolist()
        groups: list[tuple[tuple[int, ...], ...]] = []
        for piece, remainder in zip(pieces, remainders, strict=True):
            # A subset has a smaller value, so the groups of the remainder are known already.
            others = groups[remainder] if remainder >= 0 else ()
            groups.append((units_of[piece], *others))
        if len(self.parts) == len(self.endings):
            return tuple(groups)
        places: list[int] = np.searchsorted(self.parts, self.endings).tolist()
        return tuple(groups[part] for part in places)

    @cached_property
    def ending_sizes(self) -> Integers:
        """The number of units of each distinct ending."""
        return sizes_of(self.endings)

    def index_of(self, ending: int) -> int:
        """Return the index of an ending, or of the one that represents it.

        Raise SearchError if it is no ending of any state, or the pruning excludes it.
        """
        found = np.array([ending], self.endings.dtype)
        if self.symmetry is not None:
            found = self.symmetry.representatives(found)
        index = int(np.searchsorted(self.endings, found)[0])
        if index == len(self.endings) or self.endings[index] != found[0]:
            raise SearchError(f"the units {list(bits(ending))} are no ending within the pruning")
        return index


def ending_space(
    predecessors: Sequence[int],
    states: Masks,
    leaving: Masks,
    of_state: Integers,
    *,
    complete: bool,
    symmetry: BranchSymmetry | None = None,
) -> EndingSpace:
    """Return the search space of given transitions: the units that leave a state, and its index.

    Transitions are in the order of their states.
    """
    remaining, represented = states[of_state] ^ leaving, leaving
    if symmetry is not None:
        remaining = symmetry.representatives(remaining)
        represented = symmetry.representatives(leaving)
    endings, ending = np.unique(represented, return_inverse=True)
    parts, first, without_first = parts_of(predecessors, endings)
    count, _ = group_sizes(endings, parts, first, without_first)
    return EndingSpace(
        predecessors=tuple(predecessors),
        states=states,
        starts=np.searchsorted(of_state, np.arange(len(states) + 1)).astype(np.int64),
        ending=ending.astype(np.int32),
        remaining=positions(states, remaining).astype(np.int32),
        endings=endings,
        parts=parts,
        first=first,
        without_first=without_first,
        groups_count=count,
        complete=complete,
        symmetry=symmetry,
        leaving=leaving if symmetry is not None else leaving[:0],
    )


def connected_groups(predecessors: Sequence[int], ending: int) -> tuple[tuple[int, ...], ...]:
    """Return the groups of one ending, by each group's smallest unit."""
    groups: list[tuple[int, ...]] = []
    left = np.array([ending], word_type(len(predecessors)))
    while left[0]:
        group = _first_groups(predecessors, left)
        groups.append(tuple(bits(int(group[0]))))
        left = left ^ group
    return tuple(groups)


def _first_groups(predecessors: Sequence[int], endings: Masks) -> Masks:
    """Return for each ending its group that holds the smallest unit."""
    adjacent = [p | s for p, s in zip(predecessors, successors_of(predecessors), strict=True)]
    first = endings & (~endings + 1)
    before = None
    while before is None or bool((first != before).any()):
        before = first.copy()
        for unit, neighbours in enumerate(adjacent):
            inside = (first & (1 << unit)) != 0
            first[inside] |= endings[inside] & neighbours
    return first


def parts_of(predecessors: Sequence[int], endings: Masks) -> tuple[Masks, Masks, Integers]:
    """Return the parts of sorted distinct endings, as :class:`EndingSpace` defines them.

    The result is the parts, their first groups, and the index of the part that remains without the
    first group, or -1.
    """
    parts, first = endings, _first_groups(predecessors, endings)
    while True:
        left = parts ^ first
        # A remainder has a smaller value than its set.
        place = np.searchsorted(parts, left)
        missing = left[(left != 0) & (parts[place] != left)]
        if not len(missing):
            return parts, first, np.where(left != 0, place, -1)
        missing = np.unique(missing)
        parts = np.concatenate([parts, missing])
        first = np.concatenate([first, _first_groups(predecessors, missing)])
        order = np.argsort(parts)
        parts, first = parts[order], first[order]


def group_sizes(
    endings: Masks, parts: Masks, first: Masks, without_first: Integers
) -> tuple[Integers, Integers]:
    """Return the number of groups of each ending, and the number of units of its largest group."""
    first_size = sizes_of(first)
    at = np.searchsorted(parts, endings)
    count, largest = np.zeros((2, len(endings)), np.int64)
    unfinished = np.arange(len(endings))
    while len(unfinished):
        count[unfinished] += 1
        largest[unfinished] = np.maximum(largest[unfinished], first_size[at])
        at = without_first[at]
        unfinished, at = unfinished[at >= 0], at[at >= 0]
    return count, largest
