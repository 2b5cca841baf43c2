"""Programs as plain data, for files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

from tvm_ios.files.json_text import natural, naturals
from tvm_ios.files.plain_data import read_as
from tvm_ios.program.program import (
    Buffer,
    BufferType,
    KernelUse,
    Launch,
    Part,
    Program,
    ProgramError,
    Role,
    Wait,
)

_FORMAT, _VERSION = "tvm-ios program", 3


def program_to_json(program: Program) -> dict[str, Any]:
    """Return plain data, from which :func:`program_from_json` makes the program."""
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "kernels": program.kernels,
        "uses": [astuple(use) for use in program.uses],
        "units": program.units,
        "buffers": [_buffer_json(buffer) for buffer in program.buffers],
        "lanes": [
            [
                ["wait", item.lane, item.launches]
                if isinstance(item, Wait)
                else ["launch", item.kernel, item.buffers, item.begin, item.end, item.unit]
                for item in lane
            ]
            for lane in program.lanes
        ],
    }


def program_from_json(data: Mapping[str, Any]) -> Program:
    """Read the data that :func:`program_to_json` wrote.

    Raise ProgramError if the data is not a program of this version, or would not run.
    """
    if data.get("format") != _FORMAT or data.get("version") != _VERSION:
        raise ProgramError(f"this is not a {_FORMAT} of version {_VERSION}")
    try:
        return Program(
            lanes=tuple(
                tuple(
                    Wait(natural(item[1]), natural(item[2]))
                    if item[0] == "wait"
                    else Launch(natural(item[1]), naturals(item[2]), *naturals(item[3:6]))
                    for item in lane
                )
                for lane in data["lanes"]
            ),
            kernels=tuple(map(str, data["kernels"])),
            buffers=_buffers(data["buffers"]),
            units=tuple(map(str, data["units"])),
            uses=read_as(tuple[KernelUse, ...], data["uses"]),
        )
    except ProgramError:
        raise
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ProgramError(f"the program file lacks or misstates {error}") from error


def _buffer_json(buffer: Buffer) -> list[Any]:
    part = buffer.part
    place = () if part is None else (astuple(part),)
    return [buffer.name, buffer.type.shape, buffer.type.dtype, buffer.role.value, *place]


def _buffers(data: Any) -> tuple[Buffer, ...]:
    buffers = tuple(
        Buffer(
            str(name),
            BufferType(naturals(shape), str(dtype)),
            Role(role),
            *read_as(tuple[Part, ...], parts),
        )
        for name, shape, dtype, role, *parts in data
    )
    names = [buffer.name for buffer in buffers]
    if len(set(names)) < len(names):
        raise ProgramError("two buffers of the program have one name")
    return buffers
