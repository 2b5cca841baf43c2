"""Choice of the buffer of each tensor: liveness-based reuse and spilling (section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType


class Scope(Enum):
    """The memory that a tensor lies in, nearest first."""

    LOCAL = "local buffer"
    GLOBAL = "global buffer"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class Live:
    """A tensor's size, and the tasks of a program over which it lives.

    ``first`` is the task that makes it and ``last`` the last one that needs it; ``scope`` is the
    fastest buffer that it may lie in.
    """

    nbytes: int
    first: int
    last: int
    scope: Scope = Scope.LOCAL

    @property
    def liveness(self) -> int:
        """The number of tasks over which it lives."""
        return self.last - self.first + 1


def place_tensors(
    tensors: Sequence[Live],
    capacities: Mapping[Scope, int],
    taken: Mapping[Scope, Sequence[int]] = MappingProxyType({}),
) -> tuple[Scope, ...]:
    """Return the scope of each tensor for its whole life.

    Task by task, the space of dead tensors is reused; while the live ones do not fit a buffer, the
    one with the longest life (of equals the largest) is spilled to the next: from local to global
    to memory. ``capacities`` are the bytes of the local and the global buffer; ``taken`` are for
    each task the bytes of a buffer that it needs for tiles and weights.
    """
    scopes = [tensor.scope for tensor in tensors]
    tasks = max((tensor.last + 1 for tensor in tensors), default=0)
    for fast, slow in ((Scope.LOCAL, Scope.GLOBAL), (Scope.GLOBAL, Scope.MEMORY)):
        starting: list[list[int]] = [[] for _ in range(tasks)]
        for number, tensor in enumerate(tensors):
            if scopes[number] is fast:
                starting[tensor.first].append(number)
        live: list[int] = []
        for task in range(tasks):
            live = [n for n in live if tensors[n].last >= task] + starting[task]
            room = capacities[fast] - (taken[fast][task] if fast in taken else 0)
            held = sum(tensors[n].nbytes for n in live)
            while live and held > room:
                victim = max(live, key=lambda n: (tensors[n].liveness, tensors[n].nbytes))
                live.remove(victim)
                held -= tensors[victim].nbytes
                scopes[victim] = slow
    return tuple(scopes)
