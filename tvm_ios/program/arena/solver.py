"""Offsets in an arena as small as can be proven, where best-fit is not proven optimal.

A search of plans of given capacities (:mod:`tvm_ios.solvers.placing`) mostly finds one of the size
of the lower bound, if there is one. Where the least arena is larger, constraint programming
(OR-Tools' CP-SAT) proves it more often.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.lifetimes import Lifetimes
from tvm_ios.program.program import ALIGNMENT
from tvm_ios.solvers.cp_sat import solve_by_cp_sat
from tvm_ios.solvers.placing import Placing, PlacingSearch

#: With more conflicts the search takes long to prepare; with more than the second number CP-SAT
#: finds nothing in some seconds.
_MOST_CONFLICTS, _MOST_OF_CP_SAT = 1_000_000, 30_000
#: The fewest nodes that a capacity gets.
_FEWEST_NODES = 1000


def solve(
    times: Lifetimes,
    conflicts: Sequence[Array],
    start: Array,
    bound: int,
    nodes: int,
    limit: float,
) -> tuple[Array, bool]:
    """Improve offsets until proven optimal or a limit is reached; return them and whether proven.

    ``conflicts[b]`` are the buffers that may share no byte with b; ``start`` has offsets that are
    possible, and ``bound`` is a lower bound of the arena. The search looks at so many ``nodes`` at
    most, and ``limit`` is CP-SAT's deterministic time, about seconds: the same program gives the
    same plan on every machine.
    """
    pairs = sum(map(len, conflicts)) // 2
    placed = np.flatnonzero(times.sizes)
    best, least = start, max(bound, int(times.sizes.max(initial=0)))
    if pairs <= _MOST_CONFLICTS and len(placed):
        number = np.full(len(times.sizes), -1)
        number[placed] = np.arange(len(placed))
        near = [number[conflicts[buffer]] for buffer in map(int, placed)]
        unit = gcd(*map(int, times.sizes[placed]))
        lived = (times.last_step - times.first_step + 1)[placed]
        placing = Placing(times.sizes[placed] // unit, lived, near, list(cliques(near)))
        offsets, least = _searched(placing, start[placed] // unit, -(-bound // unit), nodes)
        best, least = start.copy(), least * unit
        best[placed] = offsets * unit
    proven = int((best + times.sizes).max(initial=0)) == least
    if proven or pairs > _MOST_OF_CP_SAT:
        return best, proven
    return _by_cp_sat(times.sizes, conflicts, best, least, limit)


def _searched(placing: Placing, start: Array, least: int, nodes: int) -> tuple[Array, int]:
    """Return the offsets that the search improves to, and a lower bound of their arena."""
    search, best = PlacingSearch(placing), start
    most = int((start + placing.sizes).max())
    # Below this, nothing was found; the bound itself is often met.
    passed = capacity = least
    while passed < most and nodes > 0:
        result = search.within(capacity, max(nodes // 2, _FEWEST_NODES))
        nodes -= result.nodes
        if result.offsets is not None:
            best, most = result.offsets, int((result.offsets + placing.sizes).max())
        else:
            passed = capacity + 1
            least = passed if result.none else least
        capacity = (passed + most) // 2
    return best, least


def _by_cp_sat(
    sizes: Array, conflicts: Sequence[Array], start: Array, bound: int, limit: float
) -> tuple[Array, bool]:
    # It takes a moment to import, and most plans need no solver.
    from ortools.sat.python import cp_model

    # In units of the alignment.
    length = (sizes // ALIGNMENT).tolist()
    total = int((start + sizes).max()) // ALIGNMENT
    first = (start // ALIGNMENT).tolist()
    model = cp_model.CpModel()
    top = model.new_int_var(bound // ALIGNMENT, total, "top")
    offsets = [model.new_int_var(0, total - size, f"{i}") for i, size in enumerate(length)]
    intervals = [
        model.new_fixed_size_interval_var(offset, size, f"bytes {i}")
        for i, (offset, size) in enumerate(zip(offsets, length, strict=True))
    ]
    for offset, size in zip(offsets, length, strict=True):
        model.add(offset + size <= top)
    for clique in cliques(conflicts):
        model.add_no_overlap([intervals[buffer] for buffer in clique])
    # A plan turned upside down is one too: the largest buffer lies in the lower half.
    largest = int(np.argmax(sizes))
    model.add(2 * offsets[largest] + length[largest] <= top)
    if 2 * first[largest] + length[largest] > total:
        first = [total - offset - size for offset, size in zip(first, length, strict=True)]
    for offset, value in zip(offsets, first, strict=True):
        model.add_hint(offset, value)
    model.add_hint(top, total)
    model.minimize(top)
    solved = solve_by_cp_sat(model, "max_deterministic_time", limit)
    if solved is None:
        return start, False
    solver, proven = solved
    solution = [solver.value(offset) * ALIGNMENT for offset in offsets]
    return np.asarray(solution, np.int64), proven


def cliques(conflicts: Sequence[Array]) -> Iterator[list[int]]:
    """Yield cliques of the conflict graph that together cover every conflict."""
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
