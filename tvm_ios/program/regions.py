"""Regions: disjoint pieces of memory, by which conflicts of launches are found.

A buffer that is part of another (a producer that writes into a slice of a concatenation) shares
some of its elements. Every buffer is therefore a range of *regions*: one of its own, or those that
the borders of its parts cut it into.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tvm_ios.program.program import Buffer
from tvm_ios.shapes.extent import OpenExtentError, hint_of


def regions_of(buffers: Sequence[Buffer]) -> tuple[range, ...]:
    """Return the regions that each buffer of a program consists of; buffers overlap where these do.

    The parts of one buffer are ranges of the same axis.
    """
    borders = _borders(buffers)
    #: By hash, as comparisons of open borders may depend on the shape.
    places = {n: {border: place for place, border in enumerate(c)} for n, c in borders.items()}
    first: dict[int, int] = {}
    regions = 0
    for number, cuts in borders.items():
        first[number] = regions
        regions += len(cuts) - 1

    def of(number: int, buffer: Buffer) -> range:
        part = buffer.part
        if part is None:
            return range(first[number], first[number] + len(borders[number]) - 1)
        begin, end = (places[part.of][border] for border in (part.begin, part.end))
        return range(first[part.of] + begin, first[part.of] + end)

    return tuple(of(number, buffer) for number, buffer in enumerate(buffers))


def region_bytes(buffers: Sequence[Buffer]) -> tuple[int, ...]:
    """Return the bytes of each region, numbered as by :func:`regions_of`."""
    return tuple(
        buffers[number].type.nbytes * (end - begin) // cuts[-1]
        for number, cuts in _borders(buffers).items()
        for begin, end in pairwise(cuts)
    )


def _borders(buffers: Sequence[Buffer]) -> dict[int, list[int]]:
    """Return, for each whole buffer, where its regions begin and where the last one ends."""
    cuts: dict[int, set[int]] = {n: set() for n, b in enumerate(buffers) if b.part is None}
    for buffer in buffers:
        if buffer.part is not None:
            extent = buffer.type.shape[buffer.part.axis]
            cuts[buffer.part.of] |= {0, buffer.part.begin, buffer.part.end, extent}
    return {number: _ascending(cut or {0, 1}) for number, cut in cuts.items()}


def _ascending(borders: set[int]) -> list[int]:
    """Return borders in their order, which has to be the same for every shape.

    Raise OpenExtentError if it is not, or cannot be shown to be.
    """
    ordered = sorted(borders, key=hint_of)
    for before, after in pairwise(ordered):
        if not before < after:
            raise OpenExtentError(
                f"whether a part ends at {before} or {after} depends on the shape"
            )
    return ordered
