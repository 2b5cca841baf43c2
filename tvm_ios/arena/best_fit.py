"""Best-fit: buffers are placed one after another, each where the gap it leaves is smallest.

What comes out depends on the order in which the buffers are placed, and no order is best for
every program: large ones first, long-lived ones first, and those first that may share bytes
with few others are tried in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvm_ios.arena.lifetimes import Array, Lifetimes


def place(sizes: Array, conflicts: Sequence[Array], order: Array) -> Array:
    """First bytes of buffers that are placed one after another, in this order.

    Parameters
    ----------
    sizes
        Bytes, of shape [n].
    conflicts
        For each buffer those that it may share no byte with.
    order
        All buffers.
    """
    offsets = np.full(len(sizes), -1, np.int64)
    for buffer in map(int, order):
        near: Array = conflicts[buffer]
        near = near[offsets[near] >= 0]
        begins = offsets[near]
        sorting = begins.argsort()
        ends = np.zeros(len(near) + 1, np.int64)
        np.maximum.accumulate((begins + sizes[near])[sorting], out=ends[1:])
        room = begins[sorting] - ends[:-1]
        fitting = np.flatnonzero(room >= sizes[buffer])
        gap = len(near) if len(fitting) == 0 else fitting[room[fitting].argmin()]
        offsets[buffer] = ends[gap]
    return offsets


def orders(times: Lifetimes, conflicts: Sequence[Array]) -> Iterator[Array]:
    """Orders to place buffers in, the most promising first."""
    lived = times.last_step - times.first_step + 1
    beside = np.array([times.sizes[near].sum() for near in conflicts], np.int64) + times.sizes
    yield np.lexsort((-lived, -times.sizes))
    yield np.lexsort((-times.sizes, -beside))
    yield np.lexsort((-times.sizes, -lived))
    yield np.argsort(-times.sizes * lived, kind="stable")
    yield np.argsort(times.first_step, kind="stable")
