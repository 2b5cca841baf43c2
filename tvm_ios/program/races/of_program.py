"""The plan of a program: its lanes, its waits, and the bytes of its buffers in the arena."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from tvm_ios.program.happens_before import ordered_launches
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Program
from tvm_ios.program.races.plan import Plan, PlanError, PlannedLaunch, Span


def plan_of_program(program: Program, memory: MemoryPlan) -> Plan:
    """Return the plan of a program of one shape, with its buffers as the memory plan places them.

    Raise PlanError if the program does not say what its kernels write.
    """
    if len(program.uses) != len(program.kernels):
        raise PlanError("the program does not say which arguments its kernels write")
    spans = tuple(_spans(program, memory))
    numbers: dict[tuple[int, int], int] = {}
    launches: list[PlannedLaunch] = []
    for lane, place, finished, launch in ordered_launches(program):
        numbers[lane, place] = len(launches)
        writes = {launch.buffers[position] for position in program.uses[launch.kernel].writes}
        launches.append(
            PlannedLaunch(
                f"launch {place} of lane {lane} (unit {program.units[launch.unit]!r})",
                frozenset(numbers[other, count] for other, count in enumerate(finished) if count),
                tuple(spans[b] for b in dict.fromkeys(launch.buffers) if b not in writes),
                tuple(spans[b] for b in dict.fromkeys(launch.buffers) if b in writes),
                (launch.unit, launch.kernel, launch.buffers),
                (launch.begin, launch.end),
            )
        )
    return Plan(launches)


def _spans(program: Program, memory: MemoryPlan) -> Iterator[Span]:
    """Yield the bytes of each buffer: in the arena, or in a memory of its own."""
    for number, buffer in enumerate(program.buffers):
        whole = program.whole_of(number)
        offset = memory.offsets.get(whole)
        name = program.buffers[whole].name
        place, base = (name, 0) if offset is None else ("the arena", offset)
        if buffer.part is None:
            yield Span(buffer.name, place, base, buffer.type.nbytes)
            continue
        shape, part = buffer.type.shape, buffer.part
        inner = prod(shape[part.axis + 1 :]) * np.dtype(buffer.type.dtype).itemsize
        yield Span(
            buffer.name,
            place,
            base + part.begin * inner,
            (part.end - part.begin) * inner,
            prod(shape[: part.axis]),
            shape[part.axis] * inner,
        )
