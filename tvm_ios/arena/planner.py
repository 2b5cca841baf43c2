"""One arena for a program's intermediate memory, scratch included, as small as can be proven."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_ios.arena.best_fit import placements
from tvm_ios.arena.bound import heaviest_antichain, sweep
from tvm_ios.arena.lifetimes import Array, Lifetimes, lifetimes
from tvm_ios.arena.solver import solve
from tvm_ios.memory_plan import MemoryPlan
from tvm_ios.program import Program

#: Of the solver's deterministic time; about seconds.
SOLVER_LIMIT = 3.0


@dataclass(frozen=True)
class PlannedMemory:
    """A plan, and how good it is.

    Attributes
    ----------
    plan
        Where buffers lie.
    bound
        Bytes that no plan is smaller than.
    proven
        Whether no plan is smaller than this one: it meets the bound, or the solver says so.
    unshared
        Bytes that the buffers take if each has memory of its own.
    """

    plan: MemoryPlan
    bound: int
    proven: bool
    unshared: int

    @property
    def ratio(self) -> float:
        """Size of the arena to the bound."""
        return self.plan.nbytes / self.bound if self.bound else 1.0


def plan_memory(program: Program, *, solver_limit: float = SOLVER_LIMIT) -> PlannedMemory:
    """Give the intermediate buffers and scratch of a program bytes of one arena.

    Best-fit in several orders; where none meets the lower bound, CP-SAT from the best of them.
    The same program gives the same plan.

    Parameters
    ----------
    program
        Free of races.
    solver_limit
        Of CP-SAT's deterministic time, about seconds.
    """
    return plan_lifetimes(lifetimes(program), solver_limit=solver_limit)


def plan_lifetimes(times: Lifetimes, *, solver_limit: float = SOLVER_LIMIT) -> PlannedMemory:
    """Give buffers bytes of one arena when it is known when each is in use; see above."""
    sizes, conflicts = times.sizes, times.conflicts()

    def nbytes(offsets: Array) -> int:
        return int((offsets + sizes).max(initial=0))

    bound = sweep(times)
    best = np.zeros(0, np.int64)
    for offsets in placements(times, conflicts):
        best = min(best, offsets, key=nbytes) if len(best) else offsets
        if nbytes(best) == bound:
            break
    else:
        bound = int(sizes[list(heaviest_antichain(times))].sum())
    proven = nbytes(best) == bound
    if not proven:
        best, proven = solve(sizes, conflicts, best, bound, solver_limit)
    numbers = map(int, times.buffers)
    return PlannedMemory(
        MemoryPlan(nbytes(best), dict(zip(numbers, map(int, best), strict=True))),
        bound,
        proven,
        int(sizes.sum()),
    )
