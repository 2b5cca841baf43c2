"""Best-fit: buffers are placed one after another, each in the smallest gap that holds it.

What comes out depends on the order in which the buffers are placed, and no order is best for
every program: large ones first, those first that may share bytes with few others, and those
that take much memory for long are tried in turn. The lowest gap is sometimes better than the
smallest, where many buffers have few different sizes.
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
    """First bytes of buffers that are placed one after another, in this order.

    Parameters
    ----------
    sizes
        Bytes, of shape [n].
    conflicts
        For each buffer those that it may share no byte with.
    order
        All buffers, but those that are placed.
    lowest
        Take the lowest gap that is large enough, not the smallest.
    placed
        First bytes of buffers that stay where they are, -1 for the others.
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
    """First bytes of all buffers, in several ways, the most promising first."""
    sizes = times.sizes
    lived = times.last_step - times.first_step + 1
    beside = np.array([sizes[near].sum() for near in conflicts], np.int64) + sizes
    large_first = np.lexsort((-lived, -sizes))
    yield place(sizes, conflicts, large_first)
    yield place(sizes, conflicts, np.lexsort((-sizes, -beside)))
    yield place(sizes, conflicts, np.argsort(-sizes * lived, kind="stable"))
    crowded_first = np.lexsort((-beside, -sizes))
    yield place(sizes, conflicts, crowded_first)
    yield place(sizes, conflicts, crowded_first, lowest=True)
    early_first = np.lexsort((times.finished_before.sum(axis=0), -sizes))
    yield place(sizes, conflicts, early_first, lowest=True)
    yield place(sizes, conflicts, np.argsort(times.first_step, kind="stable"))
