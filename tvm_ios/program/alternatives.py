"""Lanes of one program as an alternative of another one that computes the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvm_ios.program.happens_before import ordered_launches
from tvm_ios.program.program import (
    Alternative,
    Buffer,
    Launch,
    Program,
    ProgramError,
    Role,
    Wait,
)

#: For each symbol the least and the most values in a box of shapes.
Box = Mapping[str, tuple[int, int]]
#: As of :class:`tvm_ios.program.program.Program`.
Lanes = tuple[tuple[Launch | Wait, ...], ...]


def with_alternatives(program: Program, others: Sequence[tuple[Box, Lanes]]) -> Program:
    """Return a program that has lanes of :func:`with_lanes_of` in boxes of its shapes."""
    alternatives = tuple(
        Alternative({s.name: box[s.name] for s in program.symbols}, lanes) for box, lanes in others
    )
    return replace(program, alternatives=alternatives)


def with_lanes_of(program: Program, other: Program) -> tuple[Program, Lanes]:
    """Return a program that has the kernels and buffers of another one too, and the other's lanes.

    Units that run the same kernels in both use the program's own buffers; a unit with other kernels
    brings its constants and scratch along. Raise ProgramError if the programs have other units or
    tensors.
    """
    buffers, every = _placed_buffers(program, other)
    pairs = ((each.kernels, each.uses) for each in (other, program))
    uses = {symbol: use for kernels, of in pairs for symbol, use in zip(kernels, of, strict=True)}
    symbols = dict.fromkeys((*program.kernels, *other.kernels))
    kernels = {symbol: number for number, symbol in enumerate(symbols)}
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

    lanes = tuple(tuple(map(renumbered, lane)) for lane in other.lanes)
    grown = replace(
        program,
        kernels=tuple(kernels),
        uses=tuple(uses[symbol] for symbol in kernels),
        buffers=tuple(every),
    )
    return grown, lanes


def _placed_buffers(program: Program, other: Program) -> tuple[dict[int, int], list[Buffer]]:
    """Return the numbers that another program's buffers have in this one, and all buffers then."""
    ours, theirs = _calls(program), _calls(other)
    if ours.keys() != theirs.keys():
        raise ProgramError("the lanes are of other units")
    buffers: dict[int, int] = {}
    for unit, calls in theirs.items():
        if [symbol for symbol, _ in calls] != [symbol for symbol, _ in ours[unit]]:
            continue
        for (_, there), (_, here) in zip(calls, ours[unit], strict=True):
            for one, number in zip(there, here, strict=True):
                if buffers.setdefault(one, number) != number:
                    raise ProgramError(f"the lanes give unit {unit!r} other buffers")
    every = list(program.buffers)
    number_of = {buffer.name: number for number, buffer in enumerate(every)}
    for number, buffer in enumerate(other.buffers):
        if number in buffers:
            continue
        same = None if buffer.role is Role.SCRATCH else number_of.get(buffer.name)
        if same is not None:
            if every[same].role is not buffer.role or not every[same].type.is_same(buffer.type):
                raise ProgramError(f"the lanes have another buffer {buffer.name!r}")
            buffers[number] = same
            continue
        if buffer.role not in (Role.SCRATCH, Role.CONSTANT):
            raise ProgramError(f"the lanes are of another tensor, {buffer.name!r}")
        name = buffer.name
        while name in number_of:
            name += "~"
        number_of[name] = buffers[number] = len(every)
        every.append(replace(buffer, name=name))
    return buffers, every


def _calls(program: Program) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    """Return for each unit the symbols of its kernels, with their buffers, in order."""
    calls: dict[str, dict[tuple[str, tuple[int, ...]], None]] = {}
    for _, _, _, launch in ordered_launches(program):
        call = program.kernels[launch.kernel], launch.buffers
        calls.setdefault(program.units[launch.unit], {})[call] = None
    return {unit: list(of_unit) for unit, of_unit in calls.items()}
