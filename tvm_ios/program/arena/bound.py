"""The heaviest set of buffers of which no two may share a byte: no arena is smaller.

*Why it bounds every plan.* A plan may give two buffers the same byte only if one is dead before the
other in every run. In a set in which no two are ordered, each buffer therefore has bytes of its
own. As all begin at multiples of 64, these are whole blocks of 64 bytes: the arena is at least as
large as the sum of the set's sizes, each rounded up to 64. This holds whether or not some single
run needs all of them at once, because a plan is made before the run: a buffer that may live beside
either of two others, but never beside both, still needs three places.

*How it is found.* Being dead before is a partial order, and such a set is an antichain of it. By
Dilworth's theorem with weights the heaviest antichain weighs as much as the fewest chains, each of
weight one, that cover every buffer as often as its size says. A chain cover is a flow: each link
from a buffer to a later one saves the start of a chain, so the largest flow of links F gives
``sum(sizes) - F``. Links need only be the edges of the transitive reduction if a flow may pass
through a buffer; the antichain is read from the minimum cut.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.lifetimes import Lifetimes


def heaviest_antichain(times: Lifetimes) -> tuple[int, ...]:
    """Return the heaviest set of buffers of which no two are ordered, as indices into ``times``.

    Exact; takes seconds for ten thousand buffers.
    """
    if len(times.sizes) == 0:
        return ()
    # A buffer that nothing touches is before and after every other one.
    used = np.flatnonzero(times.last_step >= 0)
    heaviest = int(times.sizes.argmax())
    if len(used) == 0:
        return (heaviest,)
    # A buffer that is dead before another one comes earlier in the order of the steps.
    used = used[np.argsort(times.first_step[used], kind="stable")]
    sizes = times.sizes[used]
    uncut = _uncut(sizes, *_links(_predecessors(times, used)))
    if times.sizes[heaviest] > sizes[uncut].sum():
        return (heaviest,)
    return tuple(sorted(map(int, used[uncut])))


def sweep(times: Lifetimes) -> int:
    """Return the most bytes in use at once in one possible run: a lower bound that may be too low.

    Two buffers that a run needs at once are not ordered, so this is the weight of an antichain.
    """
    used = times.last_step >= 0
    sizes, first, last = (each[used] for each in (times.sizes, times.first_step, times.last_step))
    return max(most_at_once(sizes, first, last + 1), int(times.sizes.max(initial=0)))


def most_at_once(sizes: Array, lower: Array, upper: Array) -> int:
    """Return the most bytes needed in one step, by buffers needed from ``lower`` to ``upper``."""
    change = np.zeros(int(upper.max(initial=0)) + 1, np.int64)
    np.add.at(change, lower, sizes)
    np.add.at(change, upper, -sizes)
    return int(np.cumsum(change).max(initial=0))


def _predecessors(times: Lifetimes, chosen: Array) -> list[int]:
    """Return, for each chosen buffer, the bit set of those that are dead before it."""
    count = len(chosen)
    before = [(1 << count) - 1] * count
    for last, finished in zip(times.last[:, chosen], times.finished_before[:, chosen], strict=True):
        order = np.argsort(last)
        # For each k the set of the k buffers that this lane has done with first.
        prefixes = [0]
        for buffer in map(int, order):
            prefixes.append(prefixes[-1] | 1 << buffer)
        ends: list[int] = last[order].tolist()
        done = (bisect_right(ends, int(launches)) for launches in finished)
        before = [mask & prefixes[k] for mask, k in zip(before, done, strict=True)]
    return before


def _links(before: list[int]) -> tuple[Array, Array]:
    """Return the edges (heads, tails) of the transitive reduction of the order.

    The last buffer of each set of predecessors is a maximal one, because buffers are sorted.
    """
    heads: list[int] = []
    tails: list[int] = []
    for buffer, remaining in enumerate(before):
        while remaining:
            last = remaining.bit_length() - 1
            heads.append(last)
            tails.append(buffer)
            remaining &= ~(before[last] | 1 << last)
    return np.asarray(heads, np.int64), np.asarray(tails, np.int64)


def _uncut(sizes: Array, heads: Array, tails: Array) -> Array:
    """Return a mask of the buffers of the heaviest antichain, read from a minimum cut.

    These are the buffers of which neither the giving nor the taking side is cut off.
    """
    # OR-Tools takes a moment to import, and most plans need no flow.
    from ortools.graph.python import max_flow  # pyright: ignore[reportMissingTypeStubs]

    count = len(sizes)
    giving, taking = np.arange(count), np.arange(count, 2 * count)
    source, sink = 2 * count, 2 * count + 1
    everything = int(sizes.sum())
    flow: Any = max_flow.SimpleMaxFlow()
    for begin, end, capacity in (
        (np.full(count, source), giving, sizes),
        (taking, np.full(count, sink), sizes),
        (heads, taking[tails], np.full(len(heads), everything)),
        # Flow that links bring to a buffer may be passed on to the next one.
        (taking, giving, np.full(count, everything)),
    ):
        flow.add_arcs_with_capacity(begin, end, capacity)
    status = flow.solve(source, sink)
    if status != flow.OPTIMAL:
        raise RuntimeError(f"the maximum flow of {count} buffers was not found: {status}")
    reached = np.zeros(2 * count + 2, bool)
    reached[flow.get_source_side_min_cut()] = True
    return reached[:count] & ~reached[count : 2 * count]
