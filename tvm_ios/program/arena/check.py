"""Prove that a memory plan is safe: an exact check, independent of how plans are made.

The launches are visited in one order that the program allows. Each byte of the arena remembers
which buffer has it, and when the earlier ones had finished with it. A buffer may take a byte if
every access of the earlier buffers has happened before, and may not come back to a byte that
another has taken. Two buffers of which one is dead before the other pass in every order; two that
are not ordered fail in every order.
"""

from __future__ import annotations

import numpy as np

from tvm_ios.program.happens_before import RaceError, ordered_launches
from tvm_ios.program.memory_plan import MemoryPlan, check_plan, pieces
from tvm_ios.program.program import Launch, Program


def check_arena(program: Program, plan: MemoryPlan) -> None:
    """Check that no run of a program needs two buffers at once that share bytes.

    Raise ProgramError if a buffer has no place in the arena, and RaceError, which names the launch
    and both buffers, for the first launch that would overwrite a live buffer or find its own
    overwritten.
    """
    check_plan(program, plan)
    ranges, sizes = pieces(program, plan)
    bytes_of = {b: slice(piece_range.start, piece_range.stop) for b, piece_range in ranges.items()}
    #: For each piece of the arena its buffer, and the launches after which earlier ones were dead.
    owner = np.full(len(sizes), -1, np.int64)
    finished_before = np.zeros((len(sizes), len(program.lanes)), np.int64)
    #: For each buffer its accesses so far, as the number of finished launches of each lane.
    finished = {b: np.zeros(len(program.lanes), np.int64) for b in plan.offsets}
    for lane, count, surely, launch in ordered_launches(program):
        for buffer in dict.fromkeys(map(program.whole_of, launch.buffers)):
            span = bytes_of.get(buffer)
            if span is None:
                continue
            others = owner[span] != buffer
            if others.any():
                taken = int(owner[span][others][0])
                if finished[buffer].any():
                    raise RaceError(_sentence(program, taken, buffer, launch))
                for former in set(owner[span].tolist()) - {-1}:
                    rows = finished_before[span]
                    mask = owner[span] == former
                    rows[mask] = np.maximum(rows[mask], finished[former])
                owner[span] = buffer
            if (finished_before[span] > surely).any():
                # The one that this launch may run beside.
                other = next(
                    b
                    for b, clock in finished.items()
                    if b != buffer
                    and (clock > surely).any()
                    and bytes_of[b].start < span.stop
                    and span.start < bytes_of[b].stop
                )
                raise RaceError(_sentence(program, other, buffer, launch))
            finished[buffer][lane] = count


def _sentence(program: Program, other: int, buffer: int, launch: Launch) -> str:
    names = (program.buffers[number].name for number in (other, buffer))
    return (
        "the memory plan lets buffers {!r} and {!r} share bytes, and unit {!r} may use the second "
        "while the first is needed".format(*names, program.units[launch.unit])
    )
