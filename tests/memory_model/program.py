"""Programs of a few threads over shared memory: what litmus tests are written in.

A thread is a generator function. It yields operations, is sent the value of each that reads, and
returns its result. It may branch and loop as it likes, as long as its loops end::

    def consumer():
        if (yield Load("flag", Order.ACQUIRE)) == 0:
            raise Blocked  # it would wait on
        return (yield Load("data"))

Loops that wait need no repetition: a poll that fails reads, and orders nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

#: A place in memory: a name, or one with numbers.
Place = str | tuple[str | int, ...]


class Order(IntEnum):
    """The memory order of an operation; a weak one is not atomic."""

    WEAK = 0
    RELAXED = 1
    ACQUIRE = 2
    RELEASE = 3
    ACQ_REL = 4
    SC = 5

    @property
    def acquires(self) -> bool:
        """Whether a read or a fence of this order acquires."""
        return self in (Order.ACQUIRE, Order.ACQ_REL, Order.SC)

    @property
    def releases(self) -> bool:
        """Whether a write or a fence of this order releases."""
        return self in (Order.RELEASE, Order.ACQ_REL, Order.SC)

    @property
    def of_read(self) -> Order:
        """The order of the read of an update with this order."""
        return self if self is Order.SC else Order.ACQUIRE if self.acquires else Order.RELAXED

    @property
    def of_write(self) -> Order:
        """The order of the write of an update with this order."""
        return self if self is Order.SC else Order.RELEASE if self.releases else Order.RELAXED


class Scope(IntEnum):
    """The threads among which an operation is strong, those of CUDA; C++ has the last alone."""

    BLOCK = 0
    DEVICE = 1
    SYSTEM = 2


@dataclass(frozen=True, slots=True)
class Load:
    """A read. The thread is sent its value, or None if it says that it makes no use of it."""

    place: Place
    order: Order = Order.WEAK
    scope: Scope = Scope.SYSTEM
    used: bool = True


@dataclass(frozen=True, slots=True)
class Store:
    """A write."""

    place: Place
    value: int
    order: Order = Order.WEAK
    scope: Scope = Scope.SYSTEM


@dataclass(frozen=True, slots=True)
class Update:
    """An atomic read-modify-write. The thread is sent the value that was there before.

    ``change`` returns the new value, or None to leave the old one, as a failed compare-exchange
    does, which is a load of the order ``failure``.
    """

    place: Place
    change: Callable[[int], int | None]
    order: Order = Order.RELAXED
    scope: Scope = Scope.SYSTEM
    failure: Order = Order.RELAXED


@dataclass(frozen=True, slots=True)
class Fence:
    """A fence."""

    order: Order
    scope: Scope = Scope.SYSTEM


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier of a block's threads: of so many, or of all if it does not say."""

    name: Place | int = 0
    threads: int | None = None


Operation = Load | Store | Update | Fence | Barrier


class Blocked(Exception):
    """Raised by a thread that would wait for ever with the values that it has read."""


@dataclass(frozen=True)
class Thread:
    """A thread: its code, where it runs, and the threads that end before it begins."""

    run: Callable[[], Generator[Operation, Any, object]]
    block: int = 0
    device: int = 0
    after: tuple[int, ...] = ()
