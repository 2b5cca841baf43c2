"""Lifetimes of an arena's buffers, by the happens-before order of a program.

A buffer is *dead before* another one if every run has finished with it before it begins with the
other: only then may the two share bytes. This partial order is kept as vectors over the lanes: the
launches of each lane that include the buffer's last accesses, and those that have surely finished
when any of its accesses begins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.program.happens_before import ordered_launches
from tvm_ios.program.memory_plan import planned_buffers
from tvm_ios.program.program import ALIGNMENT, Program

#: Entries of the square matrix of an order that are worked on at a time.
_BLOCK = 1 << 24


@dataclass(frozen=True)
class Lifetimes:
    """The buffers of an arena, numbered from 0, and the times of their use."""

    #: Their numbers in the program, of shape [n].
    buffers: Array
    #: Bytes that each takes in an arena, multiples of 64, of shape [n].
    sizes: Array
    #: Number of launches of each lane that have finished when the buffer is dead, of shape [lanes,
    #: n].
    last: Array
    #: Number of launches of each lane that have surely finished when the buffer is first touched,
    #: whichever launch that is, of shape [lanes, n].
    finished_before: Array
    #: Its first and last access in one order that the program allows, of shape [n].
    first_step: Array
    last_step: Array

    def conflicts(self) -> list[Array]:
        """Return, for each buffer, those that it may share no byte with, ascending."""
        count, empty = len(self.sizes), self.sizes == 0
        step = max(1, _BLOCK // max(1, count))
        conflicts: list[Array] = []
        for first in range(0, count, step):
            rows = slice(first, first + step)
            before = np.ones((min(step, count - first), count), bool)
            after = before.copy()
            for last, finished in zip(self.last, self.finished_before, strict=True):
                before &= last[rows, None] <= finished[None, :]
                after &= last[None, :] <= finished[rows, None]
            before |= after
            before |= empty[rows, None] | empty[None, :]
            np.fill_diagonal(before[:, first:], True)
            conflicts += [np.flatnonzero(~row) for row in before]
        return conflicts


def lifetimes(program: Program) -> Lifetimes:
    """Return the lifetimes of the planned buffers of a program; a part counts as its whole."""
    buffers = planned_buffers(program)
    place = {number: index for index, number in enumerate(buffers)}
    for number, buffer in enumerate(program.buffers):
        if buffer.part is not None and buffer.part.of in place:
            place[number] = place[buffer.part.of]
    touched: list[int] = []
    steps: list[int] = []
    lanes: list[int] = []
    finished: list[int] = []
    clocks: list[tuple[int, ...]] = []
    for step, (lane, done, finished_before, launch) in enumerate(ordered_launches(program)):
        clocks.append(finished_before)
        lanes.append(lane)
        finished.append(done)
        for buffer in {place[b] for b in launch.buffers if b in place}:
            touched.append(buffer)
            steps.append(step)
    count, access = len(buffers), np.asarray(steps, np.int64)
    owner = np.asarray(touched, np.int64)
    last = np.zeros((len(program.lanes), count), np.int64)
    # Before a buffer that nothing touches everything has finished.
    finished_before = np.full((len(program.lanes), count), len(clocks), np.int64)
    np.maximum.at(last, (np.asarray(lanes, np.int64)[access], owner), np.asarray(finished)[access])
    clock = np.asarray(clocks, np.int64).reshape(len(clocks), len(program.lanes))
    for lane in range(len(program.lanes)):
        np.minimum.at(finished_before[lane], owner, clock[access, lane])
    first_step = np.full(count, len(clocks), np.int64)
    last_step = np.full(count, -1, np.int64)
    np.minimum.at(first_step, owner, access)
    np.maximum.at(last_step, owner, access)
    sizes = [-(-program.buffers[b].type.nbytes // ALIGNMENT) * ALIGNMENT for b in buffers]
    return Lifetimes(
        np.asarray(buffers, np.int64),
        np.asarray(sizes, np.int64),
        last,
        finished_before,
        first_step,
        last_step,
    )
