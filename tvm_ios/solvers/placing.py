"""Offsets of buffers in an arena of a given capacity, by the search of ``native/placing.cc``."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tvm_ios.distributions import built_file
from tvm_ios.files.array_files import Array
from tvm_ios.solvers.interruptible import run_interruptibly

_LIBRARY = "libtvm_ios_placing.so"
_FOUND, _NONE = 1, 0


@dataclass(frozen=True)
class Placing:
    """Buffers to place.

    Attributes
    ----------
    sizes
        Their sizes, positive, in any unit, of shape [n].
    lived
        The lengths of their lives, of shape [n], by which the search chooses what to try first.
    conflicts
        For each buffer the numbers of those that it may share nothing with.
    cliques
        Sets of buffers all of which conflict with each other, such that every conflict is in one.
    """

    sizes: Array
    lived: Array
    conflicts: Sequence[Array]
    cliques: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Placed:
    """The end of a search: offsets, if it found some.

    Attributes
    ----------
    offsets
        Offsets in units of the sizes, or None.
    none
        Whether there surely are none.
    nodes
        The nodes that it looked at.
    """

    offsets: Array | None
    none: bool
    nodes: int


class PlacingSearch:
    """A search of offsets of buffers below given capacities."""

    def __init__(self, placing: Placing) -> None:
        count = len(placing.sizes)
        cliques_of: list[list[int]] = [[] for _ in range(count)]
        for number, clique in enumerate(placing.cliques):
            for buffer in clique:
                cliques_of[buffer].append(number)
        self._count, self._cliques = count, len(placing.cliques)
        self._sizes = np.ascontiguousarray(placing.sizes, np.int64)
        self._lived = np.ascontiguousarray(placing.lived, np.int64)
        self._near, self._members, self._cliques_of = map(
            _one_behind_the_other, (placing.conflicts, placing.cliques, cliques_of)
        )

    def within(self, capacity: int, nodes: int, seconds: float = 1e9) -> Placed:
        """Search offsets below a capacity, and look at so many nodes at most."""
        offsets, left = np.zeros(self._count, np.int64), ctypes.c_int64(nodes)
        stopped = ctypes.c_int32(0)
        arguments = (
            self._count,
            *map(_pointer, (self._sizes, self._lived, *self._near)),
            self._cliques,
            *map(_pointer, (*self._members, *self._cliques_of)),
            ctypes.c_int64(capacity),
            ctypes.c_double(seconds),
            ctypes.byref(stopped),
            ctypes.byref(left),
            _pointer(offsets),
        )

        def stop() -> None:
            stopped.value = 1

        outcome = run_interruptibly(lambda: _library().tvm_ios_place_buffers(*arguments), stop)
        found = offsets if outcome == _FOUND else None
        return Placed(found, outcome == _NONE, nodes - left.value)


@cache
def _library() -> Any:
    library = ctypes.CDLL(str(built_file("tvm_ios/solvers", _LIBRARY)))
    library.tvm_ios_place_buffers.restype = ctypes.c_int32
    return library


def _one_behind_the_other(lists: Sequence[Sequence[int] | Array]) -> tuple[Array, Array]:
    """Return where each list begins, and all their members."""
    begins = np.zeros(len(lists) + 1, np.int32)
    np.cumsum([len(each) for each in lists], out=begins[1:])
    members = [np.asarray(each, np.int32) for each in lists]
    return begins, np.concatenate(members) if members else np.zeros(0, np.int32)


def _pointer(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)
