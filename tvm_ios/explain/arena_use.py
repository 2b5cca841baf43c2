"""Bytes of the arena in use at each moment of a run."""

from __future__ import annotations

from itertools import groupby

from tvm_ios.explain.tasks import Work
from tvm_ios.explain.timeline import Timeline
from tvm_ios.program.arena.bound import heaviest_antichain
from tvm_ios.program.arena.lifetimes import lifetimes
from tvm_ios.program.memory_plan import planned_buffers
from tvm_ios.program.program import Program


def arena_use(work: Work, run: Timeline) -> tuple[tuple[float, int], ...]:
    """Return the bytes of the arena in use over a run, as steps: (second, bytes from then on).

    A buffer is in use from the begin of its first launch to the end of its last one. The use of a
    part counts as use of the whole buffer. The first and the last step have 0 bytes.
    """
    program = work.program
    planned = frozenset(planned_buffers(program))
    when = {(step.lane, step.place): step for step in run.steps}
    begins: dict[int, float] = {}
    ends: dict[int, float] = {}
    for task in work.tasks:
        steps = [when[launch] for launch in task.launches]
        begin, end = min(s.begin for s in steps), max(s.end for s in steps)
        for buffer in {program.whole_of(buffer) for buffer in task.buffers} & planned:
            begins[buffer] = min(begins.get(buffer, begin), begin)
            ends[buffer] = max(ends.get(buffer, end), end)
    sizes = {buffer: program.buffers[buffer].type.nbytes for buffer in begins}
    changes = sorted(
        [
            *((begin, sizes[buffer]) for buffer, begin in begins.items()),
            *((end, -sizes[buffer]) for buffer, end in ends.items()),
        ]
    )
    in_use = 0
    steps_of_use: list[tuple[float, int]] = [(0.0, 0)]
    for second, same in groupby(changes, key=lambda change: change[0]):
        in_use += sum(nbytes for _, nbytes in same)
        steps_of_use.append((second, in_use))
    return tuple(steps_of_use)


def least_arena(program: Program) -> int:
    """Return a lower bound, in bytes, on the arena of a program under any memory plan."""
    times = lifetimes(program)
    return int(times.sizes[list(heaviest_antichain(times))].sum())
