"""The memory plan of an open program: what may share bytes in every shape, and how it is placed.

Whether two buffers may share bytes follows from launches and waits, which do not depend on the
shape; sizes do. So a plan has the conflicts and an order, and each shape has the offsets that
best-fit gives in this order. ``runtime_ext/native/shape_binding.cc`` places buffers so, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.files.json_text import naturals
from tvm_ios.files.plain_data import read_as
from tvm_ios.program.arena.best_fit import orders, place
from tvm_ios.program.arena.check import check_arena
from tvm_ios.program.arena.lifetimes import Lifetimes, lifetimes
from tvm_ios.program.memory_plan import MemoryPlan, planned_buffers
from tvm_ios.program.program import ALIGNMENT, Program, ProgramError
from tvm_ios.shapes.extent import evaluate

_FORMAT, _VERSION = "tvm-ios memory plan", 2
#: No memory holds so many bytes: nothing is placed for what needs them.
_LARGE = 1 << 60


@dataclass(frozen=True)
class OpenMemoryPlan:
    """The order in which best-fit places an open program's buffers, and their conflicts.

    Attributes
    ----------
    buffers
        The planned buffers, in the order in which they are placed.
    conflicts
        For each of them the places in ``buffers`` of earlier ones that it may share no byte with,
        ascending.
    lowest
        Whether a buffer takes the lowest gap that holds it instead of the smallest.
    """

    buffers: tuple[int, ...]
    conflicts: tuple[tuple[int, ...], ...]
    lowest: bool = False

    def at(self, program: Program, values: Mapping[str, int]) -> MemoryPlan:
        """Return the plan of ``program.at(values)``.

        Where best-fit takes more than for the largest shape, it is the plan of that one, whose
        places hold all buffers that are not larger.
        """
        sizes = self._sizes(program, values)
        plan = self._placed(sizes)
        largest = self._sizes(program, {s.name: s.most for s in program.symbols})
        if sum(largest) < _LARGE and all(a <= b for a, b in zip(sizes, largest, strict=True)):
            most = self._placed(largest)
            return most if most.nbytes < plan.nbytes else plan
        return plan

    def _sizes(self, program: Program, values: Mapping[str, int]) -> list[int]:
        return [
            max(1, -(-evaluate(program.buffers[b].type.nbytes, values) // ALIGNMENT)) * ALIGNMENT
            for b in self.buffers
        ]

    def _placed(self, sizes: list[int]) -> MemoryPlan:
        size = np.asarray(sizes, np.int64)
        near = [np.asarray(others, np.int64) for others in self.conflicts]
        offsets = place(size, near, np.arange(len(size)), lowest=self.lowest)
        nbytes = int((offsets + size).max(initial=0))
        return MemoryPlan(nbytes, dict(zip(self.buffers, map(int, offsets), strict=True)))

    def to_json(self, program: Program) -> dict[str, Any]:
        """Return plain data, from which :meth:`from_json` makes the plan for the same program."""
        check_buffers(program, self)
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "lowest": self.lowest,
            "buffers": self.buffers,
            "conflicts": self.conflicts,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any], program: Program) -> OpenMemoryPlan:
        """Read the data that :meth:`to_json` wrote for the same program.

        Raise ProgramError if the data is no memory plan of this version, or of another program.
        """
        if data.get("format") != _FORMAT or data.get("version") != _VERSION:
            raise ProgramError(f"this is not a {_FORMAT} of version {_VERSION}")
        try:
            rows = cast("list[Any]", data["conflicts"])
            plan = OpenMemoryPlan(
                naturals(data["buffers"]),
                tuple(map(naturals, rows)),
                read_as(bool, data["lowest"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ProgramError(f"the memory plan lacks or misstates {error}") from error
        check_buffers(program, plan)
        return plan


def plan_open(program: Program) -> OpenMemoryPlan:
    """Plan the intermediate buffers and scratch of an open, race-free program.

    The order is the one of :func:`tvm_ios.program.arena.best_fit.orders` that takes the fewest
    bytes at the hint.
    """
    times, conflicts = _conflicts(program)

    def nbytes(tried: tuple[Any, bool]) -> int:
        offsets = place(times.sizes, conflicts, tried[0], lowest=tried[1])
        return int((offsets + times.sizes).max(initial=0))

    best, lowest = min(orders(times, conflicts), key=nbytes)
    order: list[int] = best.tolist()
    number = {buffer: place for place, buffer in enumerate(order)}
    near: list[list[int]] = [sorted(number[o] for o in conflicts[b].tolist()) for b in order]
    return OpenMemoryPlan(
        tuple(int(times.buffers[b]) for b in order),
        tuple(tuple(o for o in others if o < place) for place, others in enumerate(near)),
        lowest,
    )


def check_buffers(program: Program, plan: OpenMemoryPlan) -> None:
    """Check that a plan is well-formed and names the planned buffers, or raise ProgramError."""
    planned = planned_buffers(program)
    if sorted(plan.buffers) != list(planned) or len(plan.conflicts) != len(planned):
        raise ProgramError("the memory plan and the program do not name the same buffers")
    for number, others in enumerate(plan.conflicts):
        if list(others) != sorted(set(others)) or any(other >= number for other in others):
            raise ProgramError("the memory plan has a conflict with a buffer that comes later")


def check_open_arena(program: Program, plan: OpenMemoryPlan) -> None:
    """Check that in no shape and no run two buffers share bytes that are needed at once.

    Raise ProgramError if the plan lacks a conflict, or as
    :func:`tvm_ios.program.arena.check.check_arena` for the plan at the hint.
    """
    check_buffers(program, plan)
    times, conflicts = _conflicts(program)
    names = [program.buffers[int(b)].name for b in times.buffers]
    number = {buffer: place for place, buffer in enumerate(plan.buffers)}
    known = {(place, o) for place, others in enumerate(plan.conflicts) for o in others}
    place_of = [number[int(buffer)] for buffer in times.buffers]
    for buffer, others in enumerate(conflicts):
        for other in map(int, others):
            pair = max(place_of[buffer], place_of[other]), min(place_of[buffer], place_of[other])
            if pair not in known:
                raise ProgramError(
                    f"the memory plan lets buffers {names[buffer]!r} and {names[other]!r} share "
                    "bytes, and both may be needed at once"
                )
    hints = {symbol.name: symbol.hint for symbol in program.symbols}
    check_arena(program.at(hints), plan.at(program, hints))


def _conflicts(program: Program) -> tuple[Lifetimes, list[Array]]:
    """Return the lifetimes of buffers in the program's own lanes, and the conflicts in all."""

    def of(choice: Program) -> Lifetimes:
        times = lifetimes(choice.at_hint())
        # A buffer that is empty at the hint need not be so in other shapes.
        return replace(times, sizes=np.maximum(times.sizes, ALIGNMENT))

    first, *others = map(of, program.choices)
    conflicts = first.conflicts()
    for times in others:
        conflicts = list(map(np.union1d, conflicts, times.conflicts()))
    return first, conflicts


def read_plan(data: Mapping[str, Any], program: Program) -> MemoryPlan | OpenMemoryPlan:
    """Read the memory plan of a program, and prove it safe; raise UserError if it is not."""
    if program.symbols:
        plan = OpenMemoryPlan.from_json(data, program)
        check_open_arena(program, plan)
        return plan
    known = MemoryPlan.from_json(data, program)
    check_arena(program, known)
    return known
