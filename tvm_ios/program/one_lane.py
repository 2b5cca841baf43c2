"""A program's launches on a single lane, with the same results, for a worker with one CPU."""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.program.happens_before import ordered_launches
from tvm_ios.program.program import Launch, Program
from tvm_ios.program.tile_ranges import same


def on_one_lane(program: Program) -> Program:
    """Return the program with all launches on one lane, in an order that its waits allow.

    Consecutive launches of adjacent tiles of one kernel on the same buffers become one: any
    partition of a kernel's tiles gives the same bits. The order is one that the program itself may
    run in, so it is free of races, and every memory plan of the program stays safe. A program of
    one lane is returned as it is.
    """
    if len(program.lanes) == 1:
        return program
    launches: list[Launch] = []
    for _, _, _, launch in ordered_launches(program):
        joined = _joined(launches[-1], launch) if launches else None
        if joined is None:
            launches.append(launch)
        else:
            launches[-1] = joined
    return replace(program, lanes=(tuple(launches),), alternatives=())


def _joined(first: Launch, second: Launch) -> Launch | None:
    """Return both launches as one if their tiles are adjacent ones of the same work, else None."""
    if replace(first, begin=0, end=0) != replace(second, begin=0, end=0):
        return None
    if same(first.end, second.begin):
        return replace(first, end=second.end)
    if same(second.end, first.begin):
        return replace(first, begin=second.begin)
    return None
