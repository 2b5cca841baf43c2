"""Programs as plain data, for files.

Version 4 is of open programs: a number that depends on the shape is a reference to the tables of
symbols and expressions (:mod:`tvm_ios.shapes.extent_json`). It is also of programs whose kernels
take scalars, of which each launch has the values once they are known. Others are of version 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.files.json_text import natural, naturals
from tvm_ios.files.plain_data import read_as
from tvm_ios.program.program import (
    Alternative,
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
from tvm_ios.shapes.extent_json import ExpressionReader, ExpressionTable

_FORMAT, _VERSION, _OPEN_VERSION = "tvm-ios program", 3, 4


def program_to_json(program: Program) -> dict[str, Any]:
    """Return plain data, from which :func:`program_from_json` makes the program."""
    opened = bool(program.symbols) or any(use.scalars for use in program.uses)
    table = ExpressionTable()
    content: dict[str, Any] = {
        "kernels": program.kernels,
        "uses": [
            [table.reference(use.tiles), use.arguments, use.writes, *([use.scalars] * opened)]
            for use in program.uses
        ],
        "units": program.units,
        "buffers": [_buffer_json(buffer, table) for buffer in program.buffers],
        "lanes": _lanes_json(program.lanes, table),
    }
    if program.alternatives:
        content["alternatives"] = [
            {"box": alternative.box, "lanes": _lanes_json(alternative.lanes, table)}
            for alternative in program.alternatives
        ]
    version = _OPEN_VERSION if opened else _VERSION
    tables = table.to_json() if opened else {}
    return {"format": _FORMAT, "version": version, **tables, **content}


def program_from_json(data: Mapping[str, Any]) -> Program:
    """Read the data that :func:`program_to_json` wrote.

    Raise ProgramError if the data is not a program of this version, or would not run.
    """
    version = data.get("version")
    if data.get("format") != _FORMAT or version not in (_VERSION, _OPEN_VERSION):
        raise ProgramError(f"this is not a {_FORMAT} of version {_VERSION} or {_OPEN_VERSION}")
    try:
        none: Mapping[str, Any] = {"symbols": (), "expressions": ()}
        tables = data if version == _OPEN_VERSION else none
        number = ExpressionReader(tables).extent
        return Program(
            lanes=_lanes(data["lanes"], number),
            kernels=tuple(map(str, data["kernels"])),
            buffers=_buffers(data["buffers"], number),
            units=tuple(map(str, data["units"])),
            uses=tuple(_use(*use, number=number) for use in data["uses"]),
            alternatives=tuple(
                Alternative(
                    read_as(Mapping[str, tuple[int, int]], alternative["box"]),
                    _lanes(alternative["lanes"], number),
                )
                for alternative in data.get("alternatives", ())
            ),
        )
    except ProgramError:
        raise
    except (KeyError, TypeError, IndexError, ValueError, UserError) as error:
        raise ProgramError(f"the program file lacks or misstates {error}") from error


def _lanes_json(lanes: Sequence[Sequence[Launch | Wait]], table: ExpressionTable) -> list[Any]:
    return [[_item_json(item, table) for item in lane] for lane in lanes]


def _lanes(data: Any, number: Callable[[Any], int]) -> tuple[tuple[Launch | Wait, ...], ...]:
    return tuple(tuple(_item(item, number) for item in lane) for lane in data)


def _item_json(item: Launch | Wait, table: ExpressionTable) -> list[Any]:
    if isinstance(item, Wait):
        return ["wait", item.lane, item.launches]
    ranges = table.reference(item.begin), table.reference(item.end)
    scalars = (item.scalars,) if item.scalars else ()
    return ["launch", item.kernel, item.buffers, *ranges, item.unit, *scalars]


def _item(item: Any, number: Callable[[Any], int]) -> Launch | Wait:
    if item[0] == "wait":
        return Wait(natural(item[1]), natural(item[2]))
    kernel, buffers, begin, end, unit, *scalars = item[1:]
    return Launch(
        natural(kernel),
        naturals(buffers),
        number(begin),
        number(end),
        natural(unit),
        *map(naturals, scalars),
    )


def _use(
    tiles: Any, arguments: Any, writes: Any, scalars: Any = (), *, number: Callable[[Any], int]
) -> KernelUse:
    return KernelUse(
        number(tiles), natural(arguments), naturals(writes), read_as(tuple[str, ...], scalars)
    )


def _buffer_json(buffer: Buffer, table: ExpressionTable) -> list[Any]:
    part = table.references(buffer.part)
    place = () if part is None else (astuple(part),)
    shape = table.references(buffer.type.shape)
    return [buffer.name, shape, buffer.type.dtype, buffer.role.value, *place]


def _part(of: Any, axis: Any, begin: Any, end: Any, number: Callable[[Any], int]) -> Part:
    return Part(natural(of), natural(axis), number(begin), number(end))


def _buffers(data: Any, number: Callable[[Any], int]) -> tuple[Buffer, ...]:
    buffers = tuple(
        Buffer(
            str(name),
            BufferType(tuple(map(number, shape)), str(dtype)),
            Role(role),
            *(_part(*part, number=number) for part in parts),
        )
        for name, shape, dtype, role, *parts in data
    )
    names = [buffer.name for buffer in buffers]
    if len(set(names)) < len(names):
        raise ProgramError("two buffers of the program have one name")
    return buffers
