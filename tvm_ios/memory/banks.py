"""The choice of a bank for each buffer, such that all accesses take the least time.

A relaxation of placing: in each bank, the buffers that are needed at once take no more bytes than
it has. Its optimum is a bound of every placement's time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.bound import most_at_once
from tvm_ios.solvers.cp_sat import solve_by_cp_sat

#: Costs are whole numbers for the solver: so many are the least cost of a byte.
_SCALE = 1000
#: The share of the time that is left that choosing may take; placing has the rest.
_SHARE = 0.5


@dataclass(frozen=True)
class Intervals:
    """Sizes of buffers and the steps from ``lower`` to before ``upper`` in which they are needed.

    Steps are numbered from 0 without gaps; all are of shape [n].
    """

    sizes: Array
    lower: Array
    upper: Array

    @classmethod
    def of(cls, sizes: Sequence[int], lower: Sequence[int], upper: Sequence[int]) -> Intervals:
        """Return intervals of any times, which are numbered in their order."""
        times = np.asarray([*lower, *upper], np.int64)
        steps = np.unique(times, return_inverse=True)[1].reshape(2, -1)
        return cls(np.asarray(sizes, np.int64), steps[0], steps[1])

    def part(self, chosen: Array) -> Intervals:
        """Return some of them, by a mask or their numbers."""
        return Intervals(self.sizes[chosen], self.lower[chosen], self.upper[chosen])

    @property
    def most_at_once(self) -> int:
        """The most bytes that are needed in one step."""
        return most_at_once(self.sizes, self.lower, self.upper)

    def needed_together(self) -> list[Array]:
        """Return the sets of buffers that are needed in one step, without subsets of others."""
        begins, ends = np.unique(self.lower), np.unique(self.upper)
        # A set is the largest where the next to come is an end.
        last = [begins[before] for before in set(np.searchsorted(begins, ends) - 1) if before >= 0]
        return [np.flatnonzero((self.lower <= step) & (step < self.upper)) for step in sorted(last)]


@dataclass(frozen=True)
class ChosenBanks:
    """For each buffer the number of its bank, the time of all accesses, and a bound of it."""

    bank_of: Array
    cost: float
    bound: float


@dataclass(frozen=True)
class BankChoice:
    """The problem of choosing banks.

    ``traffic`` has the bytes read and written of each buffer, ``fixed`` its bank if it is given,
    and ``costs`` the time of a byte in each bank.
    """

    intervals: Intervals
    traffic: Sequence[int]
    fixed: Sequence[int | None]
    costs: Sequence[float]

    def within(self, loads: Sequence[int | None], until: float) -> ChosenBanks | None:
        """Return the best choice that needs no more bytes at once than ``loads`` of each bank.

        Return None if there is none or none was found before ``until`` (``time.perf_counter``).
        """
        cheapest = int(np.argmin(self.costs))
        bank_of = np.array([cheapest if b is None else b for b in self.fixed], np.int64)
        crowded = any(
            load is not None and self.intervals.part(bank_of == bank).most_at_once > load
            for bank, load in enumerate(loads)
        )
        # Whether they fit into a single bank is told by placing.
        if len(loads) == 1 or not crowded:
            cost = self._cost(bank_of)
            return ChosenBanks(bank_of, cost, cost)
        return self._solved(loads, until)

    def _cost(self, bank_of: Array) -> float:
        return float((np.asarray(self.costs)[bank_of] * np.asarray(self.traffic)).sum())

    def _solved(self, loads: Sequence[int | None], until: float) -> ChosenBanks | None:
        # It takes a moment to import, and one bank needs no solver.
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        # Its expressions have no types that are known.
        lies: Any = [[model.new_bool_var("") for _ in self.costs] for _ in self.traffic]
        for row, bank in zip(lies, self.fixed, strict=True):
            model.add_exactly_one(row)
            if bank is not None:
                model.add(row[bank] == 1)
        sizes: list[int] = self.intervals.sizes.tolist()
        for together in self.intervals.needed_together():
            for bank, load in enumerate(loads):
                if load is not None:
                    terms: Any = [
                        sizes[buffer] * lies[buffer][bank] for buffer in map(int, together)
                    ]
                    model.add(sum(terms) <= load)
        least = min(self.costs)
        per_byte = [int(_SCALE * cost / least) for cost in self.costs]
        model.minimize(
            sum(
                traffic * cost * variable
                for row, traffic in zip(lies, self.traffic, strict=True)
                for variable, cost in zip(row, per_byte, strict=True)
            )
        )
        seconds = max(_SHARE * (until - time.perf_counter()), 0.01)
        solved = solve_by_cp_sat(model, "max_time_in_seconds", seconds)
        if solved is None:
            return None
        solver, _ = solved
        bank_of = np.array([next(n for n, var in enumerate(r) if solver.value(var)) for r in lies])
        cost = self._cost(bank_of)
        return ChosenBanks(bank_of, cost, min(cost, solver.best_objective_bound * least / _SCALE))
