"""Lanes of one program as an alternative of another one that computes the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvm_ios.program.happens_before import ordered_launches
from tvm_ios.program.program import Alternative, Launch, Program, ProgramError, Wait

#: For each symbol the least and the most values in a box of shapes.
Box = Mapping[str, tuple[int, int]]
#: As of :class:`tvm_ios.program.program.Program`.
Lanes = tuple[tuple[Launch | Wait, ...], ...]


def with_alternatives(program: Program, others: Sequence[tuple[Box, Lanes]]) -> Program:
    """Return a program that has other lanes, as of :func:`lanes_in`, in boxes of its shapes."""
    alternatives = tuple(
        Alternative({s.name: box[s.name] for s in program.symbols}, lanes) for box, lanes in others
    )
    return replace(program, alternatives=alternatives)


def lanes_in(program: Program, other: Program) -> Lanes:
    """Return the lanes of another program with this one's numbers of kernels, buffers and units.

    Raise ProgramError if it has other ones.
    """
    ours, theirs = _calls(program), _calls(other)
    if ours.keys() != theirs.keys():
        raise ProgramError("the lanes are of other units")
    buffers: dict[int, int] = {}
    for unit, calls in theirs.items():
        if [symbol for symbol, _ in calls] != [symbol for symbol, _ in ours[unit]]:
            raise ProgramError(f"the lanes have other kernels of unit {unit!r}")
        for (_, there), (_, here) in zip(calls, ours[unit], strict=True):
            for one, number in zip(there, here, strict=True):
                if buffers.setdefault(one, number) != number:
                    raise ProgramError(f"the lanes give unit {unit!r} other buffers")
    kernels = {symbol: number for number, symbol in enumerate(program.kernels)}
    units = {name: number for number, name in enumerate(program.units)}

    def renumbered(item: Launch | Wait) -> Launch | Wait:
        if isinstance(item, Wait):
            return item
        return replace(
            item,
            kernel=kernels[other.kernels[item.kernel]],
            buffers=tuple(buffers[buffer] for buffer in item.buffers),
            unit=units[other.units[item.unit]],
        )

    return tuple(tuple(map(renumbered, lane)) for lane in other.lanes)


def _calls(program: Program) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    """Return for each unit the symbols of its kernels, with their buffers, in order."""
    calls: dict[str, dict[tuple[str, tuple[int, ...]], None]] = {}
    for _, _, _, launch in ordered_launches(program):
        call = program.kernels[launch.kernel], launch.buffers
        calls.setdefault(program.units[launch.unit], {})[call] = None
    return {unit: list(of_unit) for unit, of_unit in calls.items()}
