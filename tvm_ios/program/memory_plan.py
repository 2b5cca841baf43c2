"""The offsets of buffers in one arena (plain data)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

from tvm_ios.files.json_text import natural
from tvm_ios.program.program import ALIGNMENT, Program, ProgramError, Role

#: Roles of the buffers that lie in the arena; the others are the caller's or shared.
PLANNED = frozenset({Role.INTERMEDIATE, Role.SCRATCH})


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes of one arena, given to the buffers that need no memory of their own."""

    #: Size of the arena.
    nbytes: int
    #: For each planned buffer its first byte, a multiple of 64. Buffers may share bytes if every
    #: run of the program has finished with one before it begins with the other.
    offsets: Mapping[int, int]

    def to_json(self, program: Program) -> dict[str, Any]:
        """Return plain data: the first byte of each buffer, -1 if it is not planned."""
        return {
            "format": "tvm-ios memory plan",
            "version": 1,
            "nbytes": self.nbytes,
            "offsets": [self.offsets.get(n, -1) for n in range(len(program.buffers))],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any], program: Program) -> MemoryPlan:
        """Read the data that :meth:`to_json` wrote for the same program.

        Raise ProgramError if the data is not a memory plan of this version, or :func:`check_plan`
        refuses it.
        """
        if data.get("format") != "tvm-ios memory plan" or data.get("version") != 1:
            raise ProgramError("this is not a tvm-ios memory plan of version 1")
        try:
            offsets = cast(list[Any], data["offsets"])
            planned = {n: natural(byte) for n, byte in enumerate(offsets) if byte != -1}
            plan = MemoryPlan(natural(data["nbytes"]), planned)
        except (KeyError, TypeError, ValueError) as error:
            raise ProgramError(f"the memory plan lacks or misstates {error}") from error
        if len(offsets) != len(program.buffers):
            raise ProgramError("the memory plan and the program do not name the same buffers")
        check_plan(program, plan)
        return plan


def planned_buffers(program: Program) -> tuple[int, ...]:
    """Return the buffers that a plan gives memory: intermediate ones and scratch, without parts."""
    return tuple(n for n, b in enumerate(program.buffers) if b.role in PLANNED and b.part is None)


def pieces(program: Program, plan: MemoryPlan) -> tuple[dict[int, range], tuple[int, ...]]:
    """Cut the arena at the borders of all buffers.

    Return the range of pieces of each planned buffer, and the bytes of each piece.
    """
    ends = {b: begin + program.buffers[b].type.nbytes for b, begin in plan.offsets.items()}
    borders = sorted({*plan.offsets.values(), *ends.values()})
    number = {byte: place for place, byte in enumerate(borders)}
    ranges = {b: range(number[begin], number[ends[b]]) for b, begin in plan.offsets.items()}
    return ranges, tuple(end - begin for begin, end in pairwise(borders))


def check_plan(program: Program, plan: MemoryPlan) -> None:
    """Check that a plan gives every planned buffer aligned bytes inside the arena.

    Raise ProgramError, which names the first buffer without such bytes, otherwise.
    """
    if set(plan.offsets) != set(planned_buffers(program)):
        raise ProgramError("the memory plan and the program do not name the same buffers")
    for number, offset in plan.offsets.items():
        buffer = program.buffers[number]
        if offset % ALIGNMENT or not 0 <= offset <= plan.nbytes - buffer.type.nbytes:
            raise ProgramError(
                f"the memory plan puts buffer {buffer.name!r} at byte {offset} of {plan.nbytes}"
            )
