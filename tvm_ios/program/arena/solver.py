"""Offsets in an arena as small as a search can prove, where best-fit is not proven optimal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.lifetimes import Lifetimes
from tvm_ios.solvers.placing import Placing, PlacingSearch

#: With more conflicts than this, what the search needs takes long to prepare.
_MOST_CONFLICTS = 1_000_000


def solve(
    times: Lifetimes, conflicts: Sequence[Array], start: Array, bound: int, nodes: int
) -> tuple[Array, bool]:
    """Improve offsets until proven optimal or a limit is reached; return them and whether proven.

    ``conflicts[b]`` are the buffers that may share no byte with b; ``start`` has offsets that are
    possible, and ``bound`` is a lower bound of the arena. The search looks at so many ``nodes`` at
    most, so that the same program gives the same plan on every machine.
    """
    placed = np.flatnonzero(times.sizes)
    most = int((start + times.sizes).max(initial=0))
    if sum(map(len, conflicts)) > 2 * _MOST_CONFLICTS or bound == most:
        return start, bound == most
    number = np.full(len(times.sizes), -1)
    number[placed] = np.arange(len(placed))
    near = [number[conflicts[buffer]] for buffer in map(int, placed)]
    unit = gcd(*map(int, times.sizes[placed]))
    lived = (times.last_step - times.first_step + 1)[placed]
    placing = Placing(times.sizes[placed] // unit, lived, near, list(cliques(near)))
    search = PlacingSearch(placing, nodes)
    best, least, most = start.copy(), -(-bound // unit), -(-most // unit)
    # The bound is often met; between it and what is known, halves are tried.
    capacity = least
    while least < most and search.nodes > 0:
        offsets, is_proven = search.within(capacity)
        if offsets is not None:
            best[placed] = offsets * unit
            most = int((offsets + placing.sizes).max())
        elif is_proven:
            least = capacity + 1
        elif search.nodes > 0:
            break
        capacity = (least + most) // 2
    return best, least == most


def cliques(conflicts: Sequence[Array]) -> Iterator[list[int]]:
    """Yield cliques of a graph of conflicts that together cover every conflict."""
    near = [sum(1 << int(other) for other in others) for others in conflicts]
    #: For each buffer the later ones that share no clique with it yet.
    open_pairs = [others >> n + 1 << n + 1 for n, others in enumerate(near)]
    for buffer in range(len(near)):
        while open_pairs[buffer]:
            clique, common = [buffer], near[buffer]
            while common:
                # Rather with what is open still than with what other cliques have.
                preferred = common & open_pairs[buffer] or common
                added = (preferred & -preferred).bit_length() - 1
                common &= near[added]
                clique.append(added)
            mask = sum(1 << member for member in clique)
            for member in clique:
                open_pairs[member] &= ~mask
            yield clique
