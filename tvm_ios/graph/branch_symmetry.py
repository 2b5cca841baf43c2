"""Sets of units that differ only by which of several equal branches they hold."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tvm_ios.errors import SearchError
from tvm_ios.graph.down_sets import Masks, word_type
from tvm_ios.graph.equal_branches import Branches
from tvm_ios.graph.op_graph import bits, mask_of

#: Sets that are sorted together: with their branches they stay in the cache.
_CHUNK = 1 << 14


@dataclass(frozen=True)
class BranchSymmetry:
    """The permutations of units that let equal branches change places.

    Of the sets that these turn into each other one *represents* the others: in it the branches are
    sorted by which of their units it holds, those that hold most first. ``classes`` are branches
    that may change places, in the numbers of a block; disjoint, or one within a branch of another:
    the inner ones come first.
    """

    classes: tuple[Branches, ...]

    def representatives(self, sets: Masks) -> Masks:
        """Return the representative of each set."""
        return _in_chunks(self._sorted, sets)

    def representatives_within(self, sets: Masks, parts: Masks) -> Masks:
        """Return the representative of each part of a set.

        ``sets`` are representatives, ``parts`` has a part of each. Only permutations count that
        leave the set as it is.
        """
        return _in_chunks(self._sorted_within, sets, parts)

    def _sorted(self, sets: Masks) -> Masks:
        for each in self._sorters:
            sets = each.scattered(sets, np.sort(each.codes(sets), axis=0)[::-1])
        return sets

    def _sorted_within(self, sets: Masks, parts: Masks) -> Masks:
        for each in self._sorters:
            ranks = each.codes(sets) << each.length | each.codes(parts)
            codes = np.sort(ranks, axis=0)[::-1] & ((1 << each.length) - 1)
            parts = each.scattered(parts, codes)
        return parts

    def ordered(self, pieces: Iterable[int]) -> list[int | BranchPair]:
        """Order bit sets so that those within a branch follow each other, branch by branch.

        The result also has a :class:`BranchPair` after the last piece that meets either of two
        equal branches.
        """
        return self._ordered(list(pieces), [*range(len(self.classes))])

    def _ordered(self, pieces: Sequence[int], classes: Sequence[int]) -> list[int | BranchPair]:
        steps: list[int | BranchPair] = []
        left, inner = list(pieces), list(classes)
        while inner:
            # The outermost class, and what lies within its branches.
            number = inner.pop()
            sorter = self._sorters[number]
            for branch, mask in enumerate(map(mask_of, sorter.branches)):
                nested = [c for c in inner if not self._sorters[c].mask & ~mask]
                steps += self._ordered([p for p in left if not p & ~mask], nested)
                left = [piece for piece in left if piece & ~mask]
                if branch:
                    steps.append(BranchPair(sorter, branch))
            inner = [c for c in inner if self._sorters[c].mask & ~sorter.mask]
        return [*left, *steps]

    def moved(self, original: int, part: int) -> int:
        """Map a part of the representative of ``original`` to the same part of ``original``."""
        source = {unit: unit for unit in itertools.chain(*itertools.chain(*self.classes))}
        held = original
        for branches in self.classes:
            codes = [sum((held >> u & 1) << p for p, u in enumerate(b)) for b in branches]
            order = sorted(range(len(branches)), key=lambda branch: -codes[branch])
            pairs = [
                (to, origin)
                for branch, place in enumerate(order)
                for to, origin in zip(branches[branch], branches[place], strict=True)
            ]
            held = held & ~mask_of(to for to, _ in pairs) | mask_of(
                to for to, origin in pairs if held >> origin & 1
            )
            source.update({to: source[origin] for to, origin in pairs})
        return mask_of(source.get(unit, unit) for unit in bits(part))

    @cached_property
    def _sorters(self) -> tuple[_Sorter, ...]:
        return tuple(map(_Sorter, self.classes))


def symmetry_of(units: Sequence[int], classes: Sequence[Branches]) -> BranchSymmetry | None:
    """Return the symmetry of equal branches of a block's units; None if it has none."""
    place = {unit: number for number, unit in enumerate(units)}
    local = tuple(tuple(tuple(place[u] for u in b) for b in c) for c in classes)
    return BranchSymmetry(local) if local else None


@dataclass(frozen=True)
class BranchPair:
    """Two neighbouring branches of one class; ``second`` is the number of the second one."""

    sorter: _Sorter
    second: int

    def is_sorted(self, sets: Masks, parts: Masks) -> Masks:
        """Return whether the two branches are in the representative's order in each part.

        Parameters are as for :meth:`BranchSymmetry.representatives_within`.
        """
        each = self.sorter
        before, after = (
            (each.code(sets, branch) << each.length) | each.code(parts, branch)
            for branch in (self.second - 1, self.second)
        )
        return before >= after


class _Sorter:
    """The branches of one class, with their units that a set holds encoded as numbers."""

    def __init__(self, branches: Branches) -> None:
        self.length = len(branches[0])
        self.branches = branches
        self.mask = mask_of(itertools.chain(*branches))
        # Wide enough for two codes; narrow ones are sorted sooner.
        bits_of_two = 2 * self.length
        self._type = next(
            (t for t in (np.uint8, np.uint16, np.uint32) if bits_of_two <= np.iinfo(t).bits),
            word_type(bits_of_two),
        )
        # Places whose units have successive numbers in every branch are moved together.
        joined = [
            all(branch[place] == branch[place - 1] + 1 for branch in branches)
            for place in range(1, self.length)
        ]
        starts = [0, *(place for place, same in enumerate(joined, start=1) if not same)]
        self._runs = [
            (low, (1 << (high - low)) - 1)
            for low, high in itertools.pairwise([*starts, self.length])
        ]

    def code(self, sets: Masks, branch: int) -> Masks:
        """Return, for each set, which units of a branch it holds, as bits by their places."""
        units = self.branches[branch]
        (_, ones), *others = self._runs
        code = (sets >> units[0]) & ones
        for place, ones in others:
            code |= ((sets >> units[place]) & ones) << place
        return code.astype(self._type, copy=False)

    def codes(self, sets: Masks) -> Masks:
        """Return the codes of all branches, one a row."""
        return np.stack([self.code(sets, branch) for branch in range(len(self.branches))])

    def scattered(self, sets: Masks, codes: Masks) -> Masks:
        """Return the sets with the units of each branch replaced by those of its code."""
        result = sets & ~np.asarray(self.mask, sets.dtype)
        for units, code in zip(self.branches, codes, strict=True):
            for place, ones in self._runs:
                result |= ((code >> place) & ones).astype(sets.dtype, copy=False) << units[place]
        return result


def _in_chunks(function: Callable[..., Masks], *sets: Masks) -> Masks:
    """Apply a function to long arrays, in chunks that stay in the cache."""
    if len(sets[0]) <= _CHUNK:
        return function(*sets)
    begins = range(0, len(sets[0]), _CHUNK)
    return np.concatenate([function(*(s[b : b + _CHUNK] for s in sets)) for b in begins])


def _distinct(sets: Masks) -> Masks:
    """Return the distinct sets, sorted; for few millions sorting is faster than hashing."""
    ordered = np.sort(sets)
    return ordered[np.concatenate([ordered[:1] >= 0, ordered[1:] != ordered[:-1]])]


def representative_down_sets(
    predecessors: Sequence[int], symmetry: BranchSymmetry, most: int
) -> Masks:
    """Enumerate one representative of each class of equivalent down-sets.

    ``predecessors`` are bit sets, in topological order. The result is sorted by size and then by
    value. Raise SearchError if there are more than ``most`` sets.
    """
    # Each down-set is a smaller one and a unit; so is its representative, as permutations that
    # keep the edges turn down-sets into down-sets.
    level: Masks = np.zeros(1, dtype=word_type(len(predecessors)))
    levels, count = [level], 1
    for _ in predecessors:
        grown = [
            level[((level & (1 << unit)) == 0) & ((level & before) == before)] | (1 << unit)
            for unit, before in enumerate(predecessors)
        ]
        level = _distinct(symmetry.representatives(_distinct(np.concatenate(grown))))
        levels.append(level)
        count += len(level)
        if count > most:
            raise SearchError(
                f"a block of {len(predecessors)} units has more than {most} states: "
                "cut the model into smaller blocks"
            )
    return np.concatenate(levels)
