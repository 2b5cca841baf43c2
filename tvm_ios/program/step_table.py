"""A persistent program as tables of integers, which the vEUs of the kernel interpret.

A branch of code for each vEU, as the paper draws it (Rammer, figure 9), would be hundreds of copies
of the same calls; a list that every vEU interprets costs a few loads a step. Steps that wait for
the same operators share one list of waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from tvm_ios.program.persistent import PersistentProgram


class StepRow(NamedTuple):
    """The rTasks ``[begin, end)`` of an operator, after the waits ``[first_wait, last_wait)``."""

    operator: int
    begin: int
    end: int
    first_wait: int
    last_wait: int


class StepWait(NamedTuple):
    """A wait until a vEU has made ``steps`` steps."""

    lane: int
    steps: int


@dataclass(frozen=True, slots=True)
class StepTable:
    """The steps of all vEUs."""

    #: For each vEU the index of its first step, and at the end the number of steps.
    first: tuple[int, ...]
    #: The steps of all vEUs, one vEU after another.
    steps: tuple[StepRow, ...]
    #: The waits of all barriers; a step refers to a range of them.
    waits: tuple[StepWait, ...]

    @property
    def barriers(self) -> int:
        """The number of steps that have something to wait for: barrier rTasks."""
        return sum(step.first_wait < step.last_wait for step in self.steps)

    @property
    def polls(self) -> int:
        """The number of waits that all barriers together check."""
        return sum(step.last_wait - step.first_wait for step in self.steps)

    @property
    def words(self) -> tuple[int, ...]:
        """Return the table as the kernel reads it: ``first``, then all steps, then all waits."""
        return (*self.first, *chain.from_iterable(self.steps), *chain.from_iterable(self.waits))


def tabulate(program: PersistentProgram) -> StepTable:
    """Return the table of a persistent program."""
    first, steps, waits = [0], list[StepRow](), list[StepWait]()
    spans: dict[Sequence[int], tuple[int, int]] = {(): (0, 0)}
    for lane, barriers in zip(program.lanes, program.barriers, strict=True):
        for step, operators in zip(lane, barriers, strict=True):
            if operators not in spans:
                begin = len(waits)
                waits += [StepWait(*needed) for needed in program.steps_of(operators).items()]
                spans[operators] = begin, len(waits)
            steps.append(StepRow(step.operator, step.begin, step.end, *spans[operators]))
        first.append(len(steps))
    return StepTable(tuple(first), tuple(steps), tuple(waits))
