"""A program's launches on a single lane: the same bits, for a worker that has one CPU to itself."""

from __future__ import annotations

from dataclasses import replace

from tvm_ios.program.happens_before import ordered_launches
from tvm_ios.program.program import Launch, Program


def on_one_lane(program: Program) -> Program:
    """All launches of a program, one after another, in an order that its waits allow.

    Launches that follow each other and run adjacent tiles of one kernel on the same buffers become
    one: any partition of a kernel's tiles gives the same bits. Each run is one that the program
    itself may have had, so that it is free of races, and every memory plan of it safe.

    Parameters
    ----------
    program
        Of any number of lanes; one that has a single lane is returned as it is.
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
    return replace(program, lanes=(tuple(launches),))


def _joined(first: Launch, second: Launch) -> Launch | None:
    """Both as one launch, if their tiles are adjacent ones of the same work."""
    if replace(first, begin=0, end=0) != replace(second, begin=0, end=0):
        return None
    if first.end == second.begin:
        return replace(first, end=second.end)
    if second.end == first.begin:
        return replace(first, begin=second.begin)
    return None
