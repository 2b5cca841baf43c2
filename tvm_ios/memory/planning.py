"""Places for buffers with known lifetimes, in one memory or in banks of several speeds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_ios.errors import MemoryBudgetError, UserError, nearest
from tvm_ios.files.array_files import Array
from tvm_ios.memory.arena import plan_intervals
from tvm_ios.memory.banks import BankChoice, Intervals
from tvm_ios.program.arena.solver import SolverLimits

#: A load that could not be placed is made smaller by this part of it.
_STEPS = 50


class BufferError(UserError):
    """Raised for buffers or banks that say nothing sensible, with the reason."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A piece of memory that is needed for some time.

    Attributes
    ----------
    name
        Its name, for messages and files.
    lower, upper
        The first step at which it is needed, and the first after it at which it is not: a buffer
        that ends at a step may share bytes with one that begins at it.
    size
        Its bytes.
    bank
        The name of the bank in which it has to lie, or None if the planner chooses.
    traffic
        Bytes that are read and written in its life, by which banks are chosen; if None twice its
        size: written once and read once.
    """

    name: str
    lower: int
    upper: int
    size: int
    bank: str | None = None
    traffic: int | None = None


@dataclass(frozen=True, slots=True)
class Bank:
    """A memory that buffers can lie in.

    Attributes
    ----------
    name
        Its name.
    capacity
        Its bytes, or None if there are as many as it takes.
    cost
        The time that reading or writing a byte takes, in any unit that all banks share.
    """

    name: str = "arena"
    capacity: int | None = None
    cost: float = 1.0


@dataclass(frozen=True, slots=True)
class BankPlan:
    """The use of one bank.

    Attributes
    ----------
    bank
        The bank.
    nbytes
        The bytes from its begin to the end of its last buffer.
    bound
        A lower bound of ``nbytes``, whichever offsets the buffers in this bank have.
    """

    bank: Bank
    nbytes: int
    bound: int

    @property
    def proven(self) -> bool:
        """Whether no other offsets of these buffers need fewer bytes."""
        return self.nbytes == self.bound


@dataclass(frozen=True, slots=True)
class Plan:
    """The places of buffers.

    Attributes
    ----------
    offsets
        For each buffer its first byte in its bank.
    bank_of
        For each buffer the number of its bank.
    banks
        The use of each bank.
    cost, bound
        The time of all accesses, and a lower bound of it over all placements.
    seconds
        The time that planning took.
    """

    offsets: tuple[int, ...]
    bank_of: tuple[int, ...]
    banks: tuple[BankPlan, ...]
    cost: float
    bound: float
    seconds: float


def plan(
    buffers: Sequence[Buffer],
    banks: Sequence[Bank] = (Bank(),),
    *,
    alignment: int = 1,
    time_limit: float = 30.0,
) -> Plan:
    """Give buffers offsets so that none overlap in memory while both are needed.

    In a bank without a capacity the arena is made as small as can be found; in one with a capacity
    it has to fit. Of several banks, those are chosen that make all accesses take the least time.

    Parameters
    ----------
    buffers
        The buffers.
    banks
        The memories that they may lie in.
    alignment
        Offsets are multiples of so many bytes.
    time_limit
        Seconds of the clock. Plans that are not proven may differ between machines.

    Raises
    ------
    BufferError
        If a size, a time, a bank or the alignment is none.
    MemoryBudgetError
        If the capacities are too small, or no placement was found in time: the message says which.
    """
    _require_sensible(buffers, banks, alignment)
    begin = time.perf_counter()
    until = begin + time_limit
    intervals = Intervals.of(
        [-(-buffer.size // alignment) * alignment for buffer in buffers],
        [buffer.lower for buffer in buffers],
        [buffer.upper for buffer in buffers],
    )
    names = [bank.name for bank in banks]
    choice = BankChoice(
        intervals,
        [2 * b.size if b.traffic is None else b.traffic for b in buffers],
        [None if b.bank is None else names.index(b.bank) for b in buffers],
        [bank.cost for bank in banks],
    )
    #: The most bytes that may be needed at once in each bank.
    loads = [bank.capacity for bank in banks]
    least: float | None = None
    while True:
        chosen = choice.within(loads, until)
        if chosen is None:
            raise MemoryBudgetError(_too_small(banks, intervals, time_limit))
        least = chosen.bound if least is None else least
        offsets, uses = _placed(intervals, chosen.bank_of, banks, alignment, until)
        over = [n for n, use in enumerate(uses) if use.nbytes > (use.bank.capacity or use.nbytes)]
        if not over:
            break
        if len(banks) == 1 or time.perf_counter() > until:
            raise MemoryBudgetError(_unplaced(uses[over[0]], time_limit))
        # These buffers cannot lie there together, or were not placed in time: let it be fewer.
        for number in over:
            load = intervals.part(chosen.bank_of == number).most_at_once
            loads[number] = load - max(alignment, load // _STEPS)
    return Plan(
        tuple(map(int, offsets)),
        tuple(map(int, chosen.bank_of)),
        uses,
        chosen.cost,
        min(least, chosen.cost),
        time.perf_counter() - begin,
    )


def _placed(
    intervals: Intervals, bank_of: Array, banks: Sequence[Bank], alignment: int, until: float
) -> tuple[Array, tuple[BankPlan, ...]]:
    """Return the offsets of buffers in the banks that were chosen, and the use of each bank."""
    offsets = np.zeros(len(bank_of), np.int64)
    uses: list[BankPlan] = []
    for number, bank in enumerate(banks):
        inside = np.flatnonzero(bank_of == number)
        part = intervals.part(inside)
        left = max(until - time.perf_counter(), 0.0) / (len(banks) - number)
        limits = SolverLimits(seconds=left, enough=bank.capacity or 0)
        placed = plan_intervals(inside, part.sizes, part.lower, part.upper, alignment, limits)
        offsets[inside] = [placed.plan.offsets[int(buffer)] for buffer in inside]
        uses.append(BankPlan(bank, placed.plan.nbytes, placed.bound))
    return offsets, tuple(uses)


def _require_sensible(buffers: Sequence[Buffer], banks: Sequence[Bank], alignment: int) -> None:
    if alignment < 1:
        raise BufferError(f"offsets cannot be multiples of {alignment}")
    names = [bank.name for bank in banks]
    if not names or len(set(names)) < len(names):
        raise BufferError("there has to be a bank, and each has a name of its own")
    for bank in banks:
        if bank.cost <= 0 or (bank.capacity is not None and bank.capacity < 1):
            raise BufferError(f"bank {bank.name!r} has no capacity or no cost above zero")
    for buffer in buffers:
        if buffer.size < 0 or buffer.upper <= buffer.lower or (buffer.traffic or 0) < 0:
            raise BufferError(
                f"buffer {buffer.name!r} of {buffer.size} bytes, needed from {buffer.lower} to "
                f"before {buffer.upper}: sizes are not negative, and a life has at least one step"
            )
        if buffer.bank is not None and buffer.bank not in names:
            raise BufferError(
                f"buffer {buffer.name!r} has to lie in {buffer.bank!r}, which is no bank"
                f"{nearest(buffer.bank, names)}"
            )


def _too_small(banks: Sequence[Bank], intervals: Intervals, time_limit: float) -> str:
    capacities = ", ".join(f"{bank.name} of {bank.capacity or 'any'} bytes" for bank in banks)
    return (
        f"the buffers need {intervals.most_at_once:,} bytes at once, and were not divided over the "
        f"banks ({capacities}) in {time_limit:g} seconds, or cannot be"
    )


def _unplaced(use: BankPlan, time_limit: float) -> str:
    lacking = f"the buffers do not fit into the {use.bank.capacity:,} bytes of {use.bank.name!r}"
    if use.bound > (use.bank.capacity or 0):
        return f"{lacking}: no placement needs less than {use.bound:,}"
    return (
        f"{lacking} by a search of {time_limit:g} seconds: the best placement found needs "
        f"{use.nbytes:,} bytes, and a longer search may find a better one"
    )
