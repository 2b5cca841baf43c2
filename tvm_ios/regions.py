"""Regions: the pieces of memory that launches must not fight over.

A buffer that is part of another (a producer that writes into a slice of a concatenation) shares
some of its elements. Every buffer is therefore a range of *regions*: one of its own, or those
that the borders of its parts cut it into.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_ios.program import Buffer


def regions_of(buffers: Sequence[Buffer]) -> tuple[range, ...]:
    """For each buffer the regions that it consists of; buffers overlap where these do.

    Parameters
    ----------
    buffers
        Of one program; all parts of a buffer are ranges of the same axis.
    """
    cuts: dict[int, set[int]] = {n: set() for n, b in enumerate(buffers) if b.part is None}
    for buffer in buffers:
        if buffer.part is not None:
            extent = buffer.type.shape[buffer.part.axis]
            cuts[buffer.part.of] |= {0, buffer.part.begin, buffer.part.end, extent}
    first: dict[int, int] = {}
    borders: dict[int, list[int]] = {}
    regions = 0
    for number, cut in cuts.items():
        first[number], borders[number] = regions, sorted(cut)
        regions += max(1, len(cut) - 1)

    def of(number: int, buffer: Buffer) -> range:
        part = buffer.part
        if part is None:
            return range(first[number], first[number] + max(1, len(borders[number]) - 1))
        begin, end = (borders[part.of].index(border) for border in (part.begin, part.end))
        return range(first[part.of] + begin, first[part.of] + end)

    return tuple(of(number, buffer) for number, buffer in enumerate(buffers))
