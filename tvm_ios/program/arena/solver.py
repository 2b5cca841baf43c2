"""Offsets in an arena as small as can be proven, where best-fit is not proven optimal.

A search of plans of given capacities (:mod:`tvm_ios.solvers.placing`) mostly finds one of the size
of the lower bound, if there is one. Where the least arena is larger, constraint programming
(OR-Tools' CP-SAT) proves it more often.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd, inf

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.lifetimes import Lifetimes
from tvm_ios.solvers.cp_sat import solve_by_cp_sat
from tvm_ios.solvers.placing import Placing, PlacingSearch

#: With more conflicts the search takes long to prepare; with more than the second number CP-SAT
#: finds nothing in some seconds.
_MOST_CONFLICTS, _MOST_OF_CP_SAT = 1_000_000, 30_000
#: The fewest nodes that a capacity gets, the most without a clock, and more than any search looks
#: at.
_FEWEST_NODES, _REPEATABLE_NODES, _MOST_NODES = 1000, 1_000_000, 1 << 62
#: The number of buffers up to which a search gets all its nodes.
_FEW = 250
#: The share of the time by the clock that the search gets before CP-SAT.
_SHARE = 0.7


@dataclass(frozen=True)
class SolverLimits:
    """The ends of a search: by itself without a clock, so that every machine finds the same plan.

    Attributes
    ----------
    nodes
        The nodes that the search of given capacities looks at, at most, and fewer of many buffers:
        if None as many as the clock allows, and a million without one.
    deterministic
        CP-SAT's deterministic time, about seconds; with 0 it is left out.
    seconds
        If not None, the time by the clock for both, CP-SAT's instead of the deterministic one.
    enough
        Bytes that are few enough: no smaller arena is searched.
    """

    nodes: int | None = None
    deterministic: float = 3.0
    seconds: float | None = None
    enough: int = 0

    def ending(self, until: float) -> SolverLimits:
        """Return the limits with what is left of the time until ``until``, if they have one."""
        if self.seconds is None:
            return self
        return replace(self, seconds=max(0.0, until - time.perf_counter()))


#: The limits of programs' arenas, which are the same on every machine.
REPEATABLE = SolverLimits()


def solve(
    times: Lifetimes,
    conflicts: Sequence[Array],
    start: Array,
    bound: int,
    limits: SolverLimits,
) -> tuple[Array, int]:
    """Improve offsets until proven optimal or a limit is reached; return them and a lower bound.

    ``conflicts[b]`` are the buffers that may share no byte with b; ``start`` has offsets that are
    possible, and ``bound`` is a lower bound of the arena.
    """
    until = inf if limits.seconds is None else time.perf_counter() + limits.seconds
    pairs = sum(map(len, conflicts)) // 2
    placed = np.flatnonzero(times.sizes)
    best, least = start, max(bound, int(times.sizes.max(initial=0)))
    unit = gcd(*map(int, times.sizes[placed]), *map(int, start[placed]))
    if pairs <= _MOST_CONFLICTS and len(placed):
        number = np.full(len(times.sizes), -1)
        number[placed] = np.arange(len(placed))
        near = [number[conflicts[buffer]] for buffer in map(int, placed)]
        lived = (times.last_step - times.first_step + 1)[placed]
        placing = Placing(times.sizes[placed] // unit, lived, near, list(cliques(near)))
        first, least, enough = start[placed] // unit, -(-least // unit), limits.enough // unit
        offsets, least = _searched(placing, first, least, enough, limits)
        best, least = start.copy(), least * unit
        best[placed] = offsets * unit
    nbytes = int((best + times.sizes).max(initial=0))
    if nbytes <= max(least, limits.enough) or least > limits.enough > 0:
        return best, least
    limit = ("max_deterministic_time", limits.deterministic)
    if limits.seconds is not None:
        limit = ("max_time_in_seconds", until - time.perf_counter())
    if pairs > _MOST_OF_CP_SAT or min(limit[1], limits.deterministic) <= 0:
        return best, least
    return _by_cp_sat(times.sizes, conflicts, best, least, unit, limit)


def _searched(
    placing: Placing, start: Array, least: int, enough: int, limits: SolverLimits
) -> tuple[Array, int]:
    """Return the offsets that the search improves to, and a lower bound of their arena."""
    search, best = PlacingSearch(placing), start
    # Where there are more buffers a node takes longer, and finds less.
    nodes = _REPEATABLE_NODES if limits.nodes is None else limits.nodes
    nodes, until = nodes * _FEW**2 // max(_FEW, len(start)) ** 2, inf
    if limits.seconds is not None:
        # The rest is CP-SAT's.
        until = time.perf_counter() + limits.seconds * _SHARE
        nodes = _MOST_NODES if limits.nodes is None else nodes
    most = int((start + placing.sizes).max())
    # Below this, nothing was found; the bound itself is often met.
    passed = capacity = max(least, enough)
    while passed < most and nodes > 0 and (left := until - time.perf_counter()) > 0:
        # A capacity that is few enough is the only one.
        share = 1 if enough else 2
        result = search.within(capacity, max(nodes // share, _FEWEST_NODES), min(left / share, 1e9))
        nodes -= result.nodes
        if result.offsets is not None:
            best, most = result.offsets, int((result.offsets + placing.sizes).max())
        else:
            passed = capacity + 1
            least = passed if result.none else least
        if enough:
            break
        capacity = (passed + most) // 2
    return best, least


def _by_cp_sat(
    sizes: Array,
    conflicts: Sequence[Array],
    start: Array,
    bound: int,
    unit: int,
    limit: tuple[str, float],
) -> tuple[Array, int]:
    # It takes a moment to import, and most plans need no solver.
    from ortools.sat.python import cp_model

    length = (sizes // unit).tolist()
    total = int((start + sizes).max()) // unit
    first = (start // unit).tolist()
    model = cp_model.CpModel()
    top = model.new_int_var(-(-bound // unit), total, "top")
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
    solved = solve_by_cp_sat(model, *limit)
    if solved is None:
        return start, bound
    solver, _ = solved
    solution = [solver.value(offset) * unit for offset in offsets]
    return np.asarray(solution, np.int64), round(solver.best_objective_bound) * unit


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
