"""A kernel of a unit being planned, and the storages of its buffers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from runtime_ext.kernels.spec import PhysicalShape
from runtime_ext.units.values import Storage

S = TypeVar("S", covariant=True)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Placed(Generic[S]):
    """A kernel whose buffers have storages."""

    #: The kernel.
    spec: S
    #: The place of each of its buffers' storages in ``storages``.
    places: tuple[int, ...]
    #: All storages of the unit, to which :meth:`add` may append.
    storages: list[Storage]

    def storage(self, buffer: int) -> Storage:
        """Return the storage of a buffer of the kernel."""
        return self.storages[self.places[buffer]]

    def add(self, storage: Storage) -> int:
        """Append a storage to the unit's; return its place."""
        self.storages.append(storage)
        return len(self.storages) - 1

    @property
    def shapes(self) -> tuple[PhysicalShape, ...]:
        """The physical shapes of its buffers."""
        return tuple(self.storages[place].physical for place in self.places)

    def beside(self, spec: T, places: Iterable[int]) -> Placed[T]:
        """Return another kernel of the same unit."""
        return Placed(spec, tuple(places), self.storages)
