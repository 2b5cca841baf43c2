"""The cut of a contraction: blockings on CPUs, tiles of blocks on GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tvm_ios.costs.cuda_kernels.tile import GemmTile

#: Tiles that a contraction aims at where rows are few: they balance some lanes.
USUAL_TILES = 96


@dataclass(frozen=True, slots=True)
class Blocking:
    """The cut of a contraction's work on a CPU."""

    #: The register tile: output pixels by vectors of output channels.
    pixels: int
    vectors: int
    #: Input channels a step of the innermost loop, a divisor of all; None for a rule of thumb.
    unroll: int | None = None
    #: Tiles to aim at where rows are few: enough to balance lanes, few enough to keep the calls
    #: long. Rows with borders are cut only for more than :data:`USUAL_TILES`.
    tiles: int = USUAL_TILES
    #: Whether all pixels pass before the next block of weights; None for a rule of thumb.
    blocks_outer: bool | None = None


@dataclass(frozen=True, slots=True)
class ChannelPart:
    """Output channels packed together; their first channel is at the begin of a block."""

    first_block: int
    blocks: int
    begin: int
    count: int


def channel_parts(counts: Iterable[int], width: int) -> tuple[ChannelPart, ...]:
    """Return parts of so many output channels each, in blocks of ``width`` channels."""
    parts: list[ChannelPart] = []
    block = channel = 0
    for count in counts:
        parts.append(ChannelPart(block, -(-count // width), channel, count))
        block += parts[-1].blocks
        channel += count
    return tuple(parts)


def largest_divisor(number: int, most: int) -> int:
    """Return the largest divisor of a number that is not above ``most``, which is at least 1."""
    return next(n for n in range(min(number, most), 0, -1) if number % n == 0)


#: A device's cut of a contraction.
ContractionCut = Blocking | GemmTile
#: Stands for the cut of a contraction that no device has cut yet.
UNCUT = Blocking(1, 1)
