"""Tables and vectors of a FlatBuffer, each access within its bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field


class MalformedError(ValueError):
    """A FlatBuffer with an offset or a length that leads out of it."""


def number_at(data: bytes, kind: str, at: int) -> int:
    """Return the little-endian number of a ``struct`` kind at a position."""
    return numbers_at(data, kind, at, 1)[0]


def numbers_at(data: bytes, kind: str, at: int, count: int) -> tuple[int, ...]:
    """Return so many little-endian numbers of a ``struct`` kind from a position on."""
    form = f"<{count}{kind}"
    if at < 0 or at + struct.calcsize(form) > len(data):
        raise MalformedError(f"byte {at} is asked for, and it has {len(data)}")
    return struct.unpack_from(form, data, at)


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
        if self.at + self.count > len(self.data):
            raise MalformedError(f"{self.count} bytes are asked for from byte {self.at} on")
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

    def text(self, number: int) -> str:
        """Return a field that is a string, empty if it is left out."""
        return self.vector(number).content().decode(errors="replace")


def root_of(data: bytes) -> Table:
    """Return the table that a FlatBuffer begins with."""
    return Table(data, number_at(data, "I", 0))
