"""Tables and vectors of a FlatBuffer, each access within its bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


class MalformedError(ValueError):
    """A FlatBuffer with an offset or a length that leads out of it."""


#: For each kind of table those of its fields that refer to something: the name of a table, that of
#: the tables of a vector in brackets, or the bytes of each element of any other vector.
Schema: TypeAlias = Mapping[str, Mapping[int, str | list[str] | int]]


def number_at(data: bytes, kind: str, at: int) -> int:
    """Return the little-endian number of a ``struct`` kind at a position."""
    return numbers_at(data, kind, at, 1)[0]


def numbers_at(data: bytes, kind: str, at: int, count: int) -> tuple[int, ...]:
    """Return so many little-endian numbers of a ``struct`` kind from a position on."""
    form = f"<{count}{kind}"
    _require_bytes(data, at, struct.calcsize(form))
    return struct.unpack_from(form, data, at)


def _require_bytes(data: bytes, at: int, count: int) -> None:
    if not 0 <= at <= len(data) - count:
        raise MalformedError(
            f"it refers to {count} bytes from byte {at} on, and has {len(data)} bytes"
        )


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector of a FlatBuffer: where its elements begin, and how many they are."""

    data: bytes = field(repr=False)
    at: int
    count: int

    def numbers(self, kind: str) -> tuple[int, ...]:
        """Return the elements as numbers of a ``struct`` kind."""
        return numbers_at(self.data, kind, self.at, self.count)

    def targets(self) -> tuple[int, ...]:
        """Return the positions that the elements refer to."""
        return tuple(self.at + 4 * i + offset for i, offset in enumerate(self.numbers("I")))

    def tables(self) -> tuple[Table, ...]:
        """Return the tables that the elements refer to."""
        return tuple(Table(self.data, at) for at in self.targets())

    def content(self) -> bytes:
        """Return the elements as bytes."""
        _require_bytes(self.data, self.at, self.count)
        return self.data[self.at : self.at + self.count]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a FlatBuffer, whose fields are found by the numbers that the schema gives them."""

    data: bytes = field(repr=False)
    at: int

    def place(self, number: int) -> int | None:
        """Return where a field lies, or None if the table leaves it out."""
        vtable = self.at - number_at(self.data, "i", self.at)
        entry = 4 + 2 * number
        if entry >= number_at(self.data, "H", vtable):
            return None
        offset = number_at(self.data, "H", vtable + entry)
        return self.at + offset if offset else None

    def fields(self) -> tuple[int, ...]:
        """Return the numbers of the fields that the table has."""
        vtable = self.at - number_at(self.data, "i", self.at)
        count = (number_at(self.data, "H", vtable) - 4) // 2
        return tuple(number for number in range(count) if self.place(number) is not None)

    def number(self, number: int, kind: str, default: int = 0) -> int:
        """Return a field that is a number of a ``struct`` kind, or what it is if left out."""
        at = self.place(number)
        return default if at is None else number_at(self.data, kind, at)

    def target(self, number: int) -> int | None:
        """Return the position that a field refers to, or None if the table leaves it out."""
        at = self.place(number)
        return None if at is None else at + number_at(self.data, "I", at)

    def table(self, number: int) -> Table:
        """Return the table that a field refers to, which must not be left out."""
        at = self.target(number)
        if at is None:
            raise MalformedError(f"the table at byte {self.at} lacks its field {number}")
        return Table(self.data, at)

    def vector(self, number: int) -> Vector:
        """Return the vector that a field refers to, empty if it is left out."""
        at = self.target(number)
        if at is None:
            return Vector(self.data, self.at, 0)
        return Vector(self.data, at + 4, number_at(self.data, "I", at))

    def require_whole(self, name: str, schema: Schema) -> None:
        """Require that the table, and all that it refers to by a schema, lie within the bytes."""
        vtable = self.at - number_at(self.data, "i", self.at)
        _require_bytes(self.data, self.at, number_at(self.data, "H", vtable + 2))
        for number, kind in schema[name].items():
            if self.place(number) is None:
                continue
            if isinstance(kind, str):
                self.table(number).require_whole(kind, schema)
            elif isinstance(kind, int):
                vector = self.vector(number)
                _require_bytes(self.data, vector.at, kind * vector.count)
            else:
                for table in self.vector(number).tables():
                    table.require_whole(kind[0], schema)

    def text(self, number: int) -> str:
        """Return a field that is a string, empty if it is left out."""
        return self.vector(number).content().decode(errors="replace")


def root_of(data: bytes) -> Table:
    """Return the table that a FlatBuffer begins with."""
    return Table(data, number_at(data, "I", 0))
