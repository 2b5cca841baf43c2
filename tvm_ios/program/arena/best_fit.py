"""Best-fit: buffers are placed one after another, each in the smallest gap that holds it.

The result depends on the order in which the buffers are placed, and no order is best for every
program. Several are tried in turn: large buffers first, those with many conflicts first, and those
that take much memory for long first. The lowest gap is sometimes better than the smallest, where
many buffers have few different sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.lifetimes import Lifetimes


def place(
    sizes: Array,
    conflicts: Sequence[Array],
    order: Array,
    *,
    lowest: bool = False,
    placed: Array | None = None,
) -> Array:
    """Return the offsets of buffers that are placed one after another in this order, best-fit.

    ``sizes`` are bytes, of shape [n]; ``conflicts[b]`` are the buffers that may share no byte with
    b. With ``lowest``, a buffer takes the lowest gap that is large enough instead of the smallest
    one. Buffers with an offset in ``placed`` (others have -1) stay there and are not in ``order``.
    """
    offsets = np.full(len(sizes), -1, np.int64) if placed is None else placed.copy()
    for buffer in map(int, order):
        near: Array = conflicts[buffer]
        near = near[offsets[near] >= 0]
        begins = offsets[near]
        sorting = begins.argsort()
        ends = np.zeros(len(near) + 1, np.int64)
        np.maximum.accumulate((begins + sizes[near])[sorting], out=ends[1:])
        room = begins[sorting] - ends[:-1]
        fitting = np.flatnonzero(room >= sizes[buffer])
        if len(fitting) == 0:
            offsets[buffer] = ends[-1]
        else:
            offsets[buffer] = ends[fitting[0 if lowest else room[fitting].argmin()]]
    return offsets


def placements(times: Lifetimes, conflicts: Sequence[Array]) -> Iterator[Array]:
    """Yield the offsets of all buffers for several orders, the most promising first."""
    for order, lowest in orders(times, conflicts):
        yield place(times.sizes, conflicts, order, lowest=lowest)


def orders(times: Lifetimes, conflicts: Sequence[Array]) -> Iterator[tuple[Array, bool]]:
    """Yield the orders that are worth trying, and whether buffers take the lowest gap."""
    sizes = times.sizes
    lived = times.last_step - times.first_step + 1
    beside = np.array([sizes[near].sum() for near in conflicts], np.int64) + sizes
    yield np.lexsort((-lived, -sizes)), False
    yield np.lexsort((-sizes, -beside)), False
    yield np.argsort(-sizes * lived, kind="stable"), False
    crowded_first = np.lexsort((-beside, -sizes))
    yield crowded_first, False
    yield crowded_first, True
    yield np.lexsort((times.finished_before.sum(axis=0), -sizes)), True
    yield np.argsort(times.first_step, kind="stable"), False
