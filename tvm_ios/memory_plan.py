"""Where buffers lie in one arena (plain data)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from tvm_ios.program import ALIGNMENT, BufferType, Program, ProgramError, Role

#: Roles of the buffers that lie in the arena; the others are the caller's or shared.
PLANNED = frozenset({Role.INTERMEDIATE, Role.SCRATCH})


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes of one arena, given to the buffers that need no memory of their own.

    Attributes
    ----------
    nbytes
        Size of the arena.
    offsets
        For each planned buffer its first byte, a multiple of 64. Buffers may share bytes if
        every run of the program has finished with one before it begins with the other.
    """

    nbytes: int
    offsets: Mapping[int, int]


def planned_buffers(program: Program) -> tuple[int, ...]:
    """The buffers that a plan gives memory: intermediate ones and scratch, without parts."""
    return tuple(n for n, b in enumerate(program.buffers) if b.role in PLANNED and b.part is None)


def nbytes(kind: BufferType) -> int:
    """Bytes of a buffer."""
    return prod(kind.shape) * np.dtype(kind.dtype).itemsize


def check_plan(program: Program, plan: MemoryPlan) -> None:
    """Check that a plan gives every planned buffer bytes inside the arena.

    Raises
    ------
    ProgramError
        Naming the first buffer that has none, or bytes outside or not aligned.
    """
    if set(plan.offsets) != set(planned_buffers(program)):
        raise ProgramError("the memory plan and the program do not name the same buffers")
    for number, offset in plan.offsets.items():
        buffer = program.buffers[number]
        if offset % ALIGNMENT or not 0 <= offset <= plan.nbytes - nbytes(buffer.type):
            raise ProgramError(
                f"the memory plan puts buffer {buffer.name!r} at byte {offset} of {plan.nbytes}"
            )
