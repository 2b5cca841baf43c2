"""Plan one arena, as small as can be proven, for a program's intermediate memory and scratch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.best_fit import placements
from tvm_ios.program.arena.bound import heaviest_antichain, sweep
from tvm_ios.program.arena.lane_regions import plan_lane_regions
from tvm_ios.program.arena.lifetimes import Lifetimes, lifetimes
from tvm_ios.program.arena.open_plan import OpenMemoryPlan, plan_open
from tvm_ios.program.arena.solver import REPEATABLE, SolverLimits, solve
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Program


@dataclass(frozen=True)
class PlannedMemory:
    """A memory plan with a lower bound of its size."""

    #: The offsets of buffers.
    plan: MemoryPlan
    #: A lower bound, in bytes, of the size of any plan.
    bound: int
    #: Whether no plan is smaller: it meets the bound, or the solver says so.
    proven: bool
    #: Bytes of the buffers if none shares memory.
    unshared: int
    #: The region of each lane, for the buffers that it alone uses, if lanes have regions.
    regions: tuple[range, ...] = ()
    #: The plan for all shapes of an open program, of which the others are the figures at the hint.
    open_plan: OpenMemoryPlan | None = None

    @property
    def ratio(self) -> float:
        """The size of the arena divided by the bound."""
        return self.plan.nbytes / self.bound if self.bound else 1.0


def plan_memory(program: Program) -> PlannedMemory:
    """Give the intermediate buffers and scratch of a race-free program offsets in one arena.

    Try best-fit in several orders; if none meets the lower bound, search a smaller one. The
    plan is the same on every machine.
    """
    return plan_lifetimes(lifetimes(program))


def plan_lane_memory(program: Program) -> PlannedMemory:
    """Plan an arena with a region for each lane, so that its bytes stay in the lane's cache.

    It takes more bytes than that of :func:`plan_memory`, because lanes do not reuse each other's
    regions. The program is free of races, with lanes that work by themselves for long.
    """
    times = lifetimes(program)
    placed = plan_lane_regions(times)
    offsets = placed.offsets
    bound = int(times.sizes[list(heaviest_antichain(times))].sum())
    proven = _nbytes(times.sizes, offsets) == bound
    plan = _plan(times, offsets)
    return PlannedMemory(plan, bound, proven, int(times.sizes.sum()), placed.regions)


def plan_open_memory(program: Program) -> PlannedMemory:
    """Plan the memory of an open program for all its shapes, by best-fit."""
    opened = plan_open(program)
    hints = {symbol.name: symbol.hint for symbol in program.symbols}
    times, plan = lifetimes(program.at(hints)), opened.at(program, hints)
    bound, unshared = sweep(times), int(times.sizes.sum())
    return PlannedMemory(plan, bound, plan.nbytes == bound, unshared, open_plan=opened)


def plan_lifetimes(times: Lifetimes, limits: SolverLimits = REPEATABLE) -> PlannedMemory:
    """Plan one arena from known lifetimes, as :func:`plan_memory` does."""
    until = inf if limits.seconds is None else time.perf_counter() + limits.seconds
    sizes, conflicts = times.sizes, times.conflicts()
    bound = sweep(times)
    best = _best_fit(times, conflicts, max(bound, limits.enough), until)
    if _nbytes(sizes, best) > max(bound, limits.enough):
        # In one lane, buffers that conflict pairwise live at once.
        if len(times.last) > 1:
            bound = int(sizes[list(heaviest_antichain(times))].sum())
        if _nbytes(sizes, best) > bound and not bound > limits.enough > 0:
            best, bound = solve(times, conflicts, best, bound, limits.ending(until))
    proven = _nbytes(sizes, best) == bound
    return PlannedMemory(_plan(times, best), bound, proven, int(sizes.sum()))


def plan_quickly(program: Program) -> PlannedMemory:
    """Plan an arena by best-fit alone, without OR-Tools; proven only if it meets the bound."""
    times = lifetimes(program)
    bound = sweep(times)
    offsets = _best_fit(times, times.conflicts(), bound)
    proven = _nbytes(times.sizes, offsets) == bound
    return PlannedMemory(_plan(times, offsets), bound, proven, int(times.sizes.sum()))


def _best_fit(
    times: Lifetimes, conflicts: Sequence[Array], bound: int, until: float = inf
) -> Array:
    best = np.zeros(0, np.int64)
    for offsets in placements(times, conflicts):
        best = min(best, offsets, key=lambda o: _nbytes(times.sizes, o)) if len(best) else offsets
        if _nbytes(times.sizes, best) <= bound or time.perf_counter() > until:
            break
    return best


def _nbytes(sizes: Array, offsets: Array) -> int:
    return int((offsets + sizes).max(initial=0))


def _plan(times: Lifetimes, offsets: Array) -> MemoryPlan:
    numbers = map(int, times.buffers)
    nbytes = _nbytes(times.sizes, offsets)
    return MemoryPlan(nbytes, dict(zip(numbers, map(int, offsets), strict=True)))
