"""Which tensors stay in the local buffer: liveness-based reuse and spilling (section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class Scope(Enum):
    """Where a tensor lies, nearest first."""

    LOCAL = "local buffer"
    GLOBAL = "global buffer"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Live:
    """A tensor over the computation tasks of a program.

    Attributes
    ----------
    nbytes
        The size of the tensor.
    first, last
        Tasks: the one that makes it, the last one that needs it.
    scope
        The fastest buffer that it may lie in.
    """

    nbytes: int
    first: int
    last: int
    scope: Scope = Scope.LOCAL

    @property
    def liveness(self) -> int:
        """Tasks over which it lives."""
        return self.last - self.first + 1


def place_tensors(tensors: Sequence[Live], capacities: Mapping[Scope, int]) -> tuple[Scope, ...]:
    """The scope of each tensor for its whole life.

    Task by task, room that dead tensors leave is taken again; while the live ones do not fit a
    buffer, the one with the longest life (of equals the largest) is spilled to the next: from local
    to global to memory.

    Parameters
    ----------
    tensors
        All tensors of the program.
    capacities
        Bytes of the local and the global buffer.
    """
    scopes = [tensor.scope for tensor in tensors]
    for fast, slow in ((Scope.LOCAL, Scope.GLOBAL), (Scope.GLOBAL, Scope.MEMORY)):
        starting: dict[int, list[int]] = {}
        for number, tensor in enumerate(tensors):
            if scopes[number] is fast:
                starting.setdefault(tensor.first, []).append(number)
        live: list[int] = []
        for task in sorted(starting):
            live = [n for n in live if tensors[n].last >= task] + starting[task]
            taken = sum(tensors[n].nbytes for n in live)
            while taken > capacities[fast]:
                victim = max(live, key=lambda n: (tensors[n].liveness, tensors[n].nbytes))
                live.remove(victim)
                taken -= tensors[victim].nbytes
                scopes[victim] = slow
    return tuple(scopes)
