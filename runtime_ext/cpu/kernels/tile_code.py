"""The code of a kernel, as a loop over a range of its tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx

from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Code, EncodedBuffer, Index, is_number
from runtime_ext.kernels.spec import Encoded, PhysicalShape
from runtime_ext.kernels.statements import divide
from tvm_ios.shapes.extent import Symbol, ceil_div, is_open

#: More regions than lanes gain nothing.
MOST_REGIONS = 16


def regions(worth: float, groups: int) -> int:
    """Return the number of regions (a power of two) of data that are multiplied with large weights.

    All blocks of weights are applied to a region before the next one. A lane then mostly reads
    what it wrote itself in the step before, and not another core's cache, which is slowest; but
    each region reads all weights. ``worth`` regions pay off; the data have ``groups`` groups of
    tiles.
    """
    return min(groups, 1 << (max(1, min(MOST_REGIONS, int(worth))).bit_length() - 1))


#: Rows of tiles for what is left: few numbers, each little larger than the one before.
_TAILS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24)


@dataclass(frozen=True, slots=True)
class Tail:
    """The rows that are left after whole register tiles: one smaller tile.

    Rows that do not exist are computed as the last one again, and not stored.
    """

    #: The rows that exist.
    count: Index
    #: The fewest and most of them for which this tile is written.
    least: int
    size: int

    @property
    def condition(self) -> Any:
        """The condition for this tile to be the one that runs."""
        return tirx.all(self.count >= self.least, self.count <= self.size)

    def row(self, row: int) -> Index:
        """Return a row of the tile, or the last that exists."""
        return row if row < self.least else tirx.min(row, self.count - 1)


def tails(count: Index, rows: int) -> list[Tail]:
    """Return tiles for ``count`` rows that are left of tiles of ``rows``."""
    sizes = [size for size in _TAILS if size < rows]
    if sizes and sizes[-1] < rows - 1:
        sizes.append(rows)
    return [Tail(count, before + 1, size) for before, size in zip([0, *sizes], sizes, strict=False)]


class TileCode(Code):
    """The code that a kernel runs for each tile of a range.

    ``shapes`` are those of the kernel's buffers, ``dtypes`` their types, by default float32,
    unless a shape is encoded. ``buffers`` are one-dimensional views of the kernel's parameters.
    The values of ``symbols`` are parameters, too.
    """

    def __init__(
        self,
        shapes: Sequence[PhysicalShape],
        isa: Isa,
        dtypes: Sequence[str] | None = None,
        symbols: Sequence[Symbol] = (),
    ) -> None:
        super().__init__(
            rounds=isa.rounds,
            fuses=isa.fuses,
            reciprocals=isa.reciprocals,
            index=isa.index,
            symbols=symbols,
        )
        types = dtypes or ["float32"] * len(shapes)
        self._parameters: list[Any] = []
        self.buffers = [
            self._parameter(shape, dtype, f"b{i}")
            for i, (shape, dtype) in enumerate(zip(shapes, types, strict=True))
        ]
        self._begin, self._end = (tirx.Var(name, self.index) for name in ("begin", "end"))
        self._count = 0

    @contextmanager
    def tiles(self, count: int) -> Any:
        """Open the loop over the tiles of the range; the kernel has ``count`` tiles in all."""
        self._count = count
        with self.loop("tile", self._begin, self._end) as tile:
            yield tile

    def steps_of_tiles(self, step: int, write: Callable[[Index, int], None]) -> None:
        """Write a loop over the tiles of the range, several a step; see :meth:`steps`."""
        self.steps(
            "step", self._end - self._begin, step, lambda at, count: write(self._begin + at, count)
        )

    def block_and_group(
        self, tile: Index, blocks: int, groups: int, regions: int
    ) -> tuple[Index, Index]:
        """Return the block of weights and the group of data that a tile multiplies.

        In the order of tiles, all blocks are applied to a region of groups before the next region,
        and a block to all groups of the region before the next block.
        """
        most = ceil_div(groups, regions)
        region, rest = divide(self, "region", tile, blocks * most, ceil_div(groups, most))
        if groups % most == 0:
            block, group = divide(self, "block", rest, most, blocks)
        else:
            here = self.bind("here", tirx.min(most, groups - region * most))
            block = self.bind("block", tirx.truncdiv(rest, here))
            group = rest - block * here
        return block, self.bind("group", group + region * most)

    def groups_of_a_region(self, worth: Index, groups: Index) -> Index:
        """Return the groups of data to which all blocks are applied before the next ones.

        As of :func:`regions`, for numbers that depend on the shape.
        """
        number = 2
        count: Index = tirx.IntImm(self.index, 1)
        while number <= MOST_REGIONS:
            count = tirx.Select(worth >= number, tirx.IntImm(self.index, number), count)
            number *= 2
        count = self.bind("regions", count)
        return self.keep_index(tirx.truncdiv(groups + count - 1, count))

    def block_and_open_group(
        self, tile: Index, blocks: int, groups: Index, most: Index
    ) -> tuple[Index, Index]:
        """Return the block and the group of a tile; a region has ``most`` of the groups.

        See :meth:`block_and_group`.
        """
        if is_number(most, 1):
            group, block = divide(self, "group", tile, blocks, 2)
            return block, group
        of_region = self.bind("of_region", most * blocks)
        region = self.bind("region", tirx.truncdiv(tile, of_region))
        rest = self.bind("rest", tile - region * of_region)
        first = self.bind("first_group", region * most)
        here = self.bind("here", tirx.min(most, groups - first))
        block = self.keep_index(tirx.truncdiv(rest, here))
        return block, self.keep_index(rest - block * here + first)

    @contextmanager
    def pixels(self, grid: tuple[int, int, int], strip: int) -> Any:
        """Open the loops over each pixel of images; yield its image, row and column.

        A tile is a strip of a row; see :meth:`strips`.
        """
        with (
            self.strips(grid, strip) as (image, row, first, last),
            self.loop("x", first, last) as x,
        ):
            yield image, row, x

    @contextmanager
    def strips(self, grid: tuple[int, int, int], strip: int) -> Any:
        """Open the loop over strips of rows of images; yield image, row, first and last column.

        ``grid`` has the number of images, rows and columns; a tile is at most ``strip`` pixels of
        a row.
        """
        batch, height, width = grid
        strips = ceil_div(width, strip)
        with self.tiles(batch * height * strips) as tile:
            line, part = divide(self, "line", tile, strips, batch * height)
            image, row = divide(self, "image", line, height, batch)
            first = self.bind("first", part * strip)
            last = first + strip
            if is_open(width) or width % strip:
                last = tirx.min(last, self.extent(width))
            yield image, row, first, last

    def kernel(self) -> tuple[Any, int]:
        """Return the statements as a PrimFunc, and its number of tiles."""
        return self.function(self._parameters, self._begin, self._end), self._count

    def _parameter(self, shape: PhysicalShape, dtype: str, name: str) -> Any:
        """Add a parameter; return a one-dimensional view of it, as code generators need."""
        if isinstance(shape, Encoded):
            elements = self._parameter(shape.shape, shape.encoding.dtype, name)
            return EncodedBuffer(elements, shape.encoding)
        # The size of an open buffer matters to nobody.
        known = shape if not any(map(is_open, shape)) else (1,)
        parameter = tirx.decl_buffer(known, dtype, name)
        self._parameters.append(parameter)
        elements = tirx.decl_buffer((prod(known),), dtype, name, data=parameter.data)
        self.append(tirx.DeclBuffer(elements, data=parameter.data))
        return elements
