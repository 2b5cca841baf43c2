"""An arena in which every lane has a region of its own, so that its buffers stay in its cache.

A lane that runs one instance after another writes the intermediates of the next one to the bytes of
the last one, which are in its cache. A plan for the fewest bytes may give it bytes that another
lane has written, which then have to come from that lane's cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.best_fit import place
from tvm_ios.program.arena.lifetimes import Lifetimes

#: In place of a lane number, for buffers that several lanes use, or none.
SHARED = -1


@dataclass(frozen=True)
class LaneRegions:
    """The offsets of buffers, and the region of each lane."""

    #: First bytes of the buffers, of shape [n].
    offsets: Array
    #: The bytes of each lane. Buffers that only this lane uses lie there. Buffers of several lanes
    #: may lie there too, while the lane does not need these bytes, or behind all regions.
    regions: tuple[range, ...]


def plan_lane_regions(times: Lifetimes) -> LaneRegions:
    """Place buffers that one lane alone uses in the region of that lane, best-fit.

    The lifetimes are those of a program that is free of races.
    """
    conflicts = times.conflicts()
    lane_of = buffer_lanes(times)
    offsets = np.full(len(times.sizes), -1, np.int64)
    regions: list[range] = []
    begin = 0
    for lane in range(len(times.last)):
        private = np.flatnonzero(lane_of == lane)
        offsets[private] = begin + _best(times, conflicts, private)
        end = int((offsets + times.sizes)[private].max(initial=begin))
        regions.append(range(begin, end))
        begin = end
    shared = np.flatnonzero(lane_of == SHARED)
    offsets = place(times.sizes, conflicts, _large_first(times, shared), placed=offsets)
    return LaneRegions(offsets, tuple(regions))


def buffer_lanes(times: Lifetimes) -> Array:
    """Return, for each buffer, the only lane that uses it, or :data:`SHARED`, of shape [n]."""
    using = times.last > 0
    return np.where(using.sum(axis=0) == 1, using.argmax(axis=0), SHARED)


def _best(times: Lifetimes, conflicts: Sequence[Array], buffers: Array) -> Array:
    """Return the offsets of some buffers in a region of their own: the better of two orders."""
    index = np.full(len(times.sizes), -1, np.int64)
    index[buffers] = np.arange(len(buffers))
    sizes = times.sizes[buffers]
    near = [index[conflicts[b]] for b in buffers]
    near = [others[others >= 0] for others in near]
    by_size = np.argsort(-sizes, kind="stable")
    by_time = np.argsort(times.first_step[buffers], kind="stable")
    placed = [place(sizes, near, order) for order in (by_size, by_time)]
    return min(placed, key=lambda offsets: int((offsets + sizes).max(initial=0)))


def _large_first(times: Lifetimes, chosen: Array) -> Array:
    return chosen[np.argsort(-times.sizes[chosen], kind="stable")]
