"""Matrix products of any number of rows: one register tile, whose tail has several sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.blocking import has_rows
from runtime_ext.cpu.kernels.contraction import (
    BUSY_PIXELS,
    Channels,
    ContractionWriter,
    TilePlan,
    channel_blocks,
)
from runtime_ext.cpu.kernels.open_convolution import OpenRowsWriter
from runtime_ext.cpu.kernels.passes import fetch_nothing
from runtime_ext.cpu.kernels.tile_code import Tail, TileCode, tails
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, equal, load
from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.open_shapes import is_same
from runtime_ext.kernels.spec import Contraction, Statement, accesses
from runtime_ext.kernels.statements import divide
from tvm_ios.errors import UserError
from tvm_ios.shapes.extent import ceil_div, symbols_in

#: Multiply-adds of vectors in a tile, about: long against finding its place.
_WORK = 8192
#: Blocks of weights that few rows are multiplied with side by side, at most, and such rows.
_TOGETHER, _FEW = 4, 4
#: Registers for weights.
_SPARE = 3
#: Image, row and column of a pixel.
_Pixel = tuple[Index, Index, Index]


def open_contraction(spec: Contraction, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of a contraction of open extents and its number of tiles.

    Raise UserError if its channels or its window are open.
    """
    if not spec.has_known_channels:
        raise UserError(
            "there is no kernel of open extents for convolutions whose channels or windows depend "
            "on the shape: give exact shapes"
        )
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    writer = OpenRowsWriter if has_rows(spec) else OpenMatrixWriter
    writer(spec, isa, code).all_tiles()
    return code.kernel()


class OpenMatrixWriter(ContractionWriter):
    """A writer of the code of the tiles, each a block of channels for some rows of a matrix.

    The pixels of all images are rows one after another.
    """

    def __init__(self, spec: Contraction, isa: Isa, code: TileCode) -> None:
        blocking = spec.blocking
        parts, blocks, outer = channel_blocks(spec, isa)
        plan = TilePlan((), parts, blocks, 1, 1, 0, True, outer, 1)
        # To the code of register tiles all is one row of pixels.
        row = replace(spec.window, input=(1, 1), output=(1, 1))
        row_spec = replace(spec, batch=1, window=row, data=code.access(spec.data))
        super().__init__(row_spec, plan, isa, code)
        self._images, (self._height, self._width_of_row) = spec.batch, spec.window.output
        rows: int = spec.batch * self._height * self._width_of_row
        pixels = blocking.pixels
        work = pixels * blocking.vectors * spec.channels
        self._strip = max(1, min(BUSY_PIXELS // pixels, round(_WORK / work)))
        of_group = pixels * self._strip
        groups = ceil_div(rows, of_group)
        self.tiles = blocks * groups
        self._rows, self._groups = code.extent(rows), code.extent(groups)
        self._whole = code.extent(rows // pixels)
        self._tails = tails(code.extent(rows % pixels), pixels)
        worth = code.extent(rows // BUSY_PIXELS)
        self._most = code.groups_of_a_region(worth, self._groups) if outer else 1
        self._are_alike = _are_alike(spec)
        self._is_linear = self._reads_rows_in_order(spec)
        self._few = [
            tail
            for tail in tails(self._rows, min(_FEW, pixels // 2) + 1)
            if self._blocks_together(tail.size) > 1
        ]

    def _reads_rows_in_order(self, spec: Contraction) -> bool:
        """Return whether all rows are equally far from the next one."""
        images, rows, pixels, _ = spec.data.strides
        height, width = self._height, self._width_of_row
        lines = is_same(height, 1) or is_same(rows, width * pixels)
        return lines and (is_same(spec.batch, 1) or is_same(images, height * width * pixels))

    def all_tiles(self) -> None:
        """Write the loops over the tiles of the kernel's range: of few rows, and of more."""
        self._few_rows()
        more = self._rows > self._few[-1].size if self._few else None
        with self.code.branch(more):
            super().all_tiles()

    def tile(self, tile: Index) -> None:
        """Write one block of channels for a group of rows."""
        code, blocks = self.code, self.plan.blocks
        block, group = code.block_and_open_group(tile, blocks, self._groups, self._most)
        first = code.bind("first", group * self._strip)
        last = code.bind("last", tirx.min(first + self._strip, self._whole))
        pixels = self.spec.blocking.pixels
        with code.loop("x", first, last) as x:
            self._register_tile(block, code.bind("row", x * pixels), pixels)
        # The rows that are left follow the last whole register tile.
        behind = tirx.all(first <= self._whole, self._whole < first + self._strip)
        with code.branch(behind):
            row = code.bind("row", self._whole * pixels)
            for tail in self._tails:
                with code.branch(tail.condition):
                    self._register_tile(block, row, tail.size, tail)

    def _few_rows(self) -> None:
        """Write the tiles of few rows: several blocks of channels side by side.

        A block alone would have too few sums to hide the latency of multiply-adds.
        """
        for tail in self._few:
            with self.code.branch(tail.condition):
                together = self._blocks_together(tail.size)
                self.code.steps_of_tiles(together, partial(self._side_by_side, tail))

    def _blocks_together(self, rows: int) -> int:
        """Return the blocks whose sums for some rows fit the registers."""
        free = self.isa.registers - rows - _SPARE
        return min(_TOGETHER, self.plan.blocks, free // (rows * self.spec.blocking.vectors))

    def _side_by_side(self, tail: Tail, first: Index, count: int) -> None:
        code, size = self.code, self.spec.channels * self._width()
        blocks = [code.bind("block", first + number) for number in range(count)]
        weights = [code.bind("weights", block * size) for block in blocks]
        sources = self._sources(0, tail.size, tail)
        pixels = list(range(tail.size))
        sums = [self.first_sums(block, tail.size) for block in blocks]

        def multiply(first: Index, count: int) -> None:
            for ci, word_of in self.words_of(pixels, sources, first, count):
                for start, of_block in zip(weights, sums, strict=True):
                    self._multiply_add(ci, pixels, word_of, start, of_block)

        words = self.spec.channels
        unroll = self._unroll(words, tail.size * count * self.spec.blocking.vectors)
        self.unrolled(words, unroll, 0, multiply, fetch_nothing)
        for block, of_block in zip(blocks, sums, strict=True):
            self._store_rows(block, 0, self.in_floats(of_block, tail.size), tail)

    def _register_tile(self, block: Index, row: Index, size: int, tail: Tail | None = None) -> None:
        sources = self._sources(row, size, tail)

        def accumulate(sums: list[Any]) -> None:
            words = self.spec.channels
            weights = self.code.bind("weights", block * (words * self._width()))
            self._input_channels(words, list(range(size)), sources, weights, sums, fetch_nothing)

        self._store_rows(block, row, self.accumulated(block, size, accumulate), tail)

    def _sources(self, row: Index, size: int, tail: Tail | None) -> list[Index]:
        """Return where the data of each row begin."""
        code, data = self.code, self.spec.data
        image, height, width, _ = data.strides
        if not self._is_linear:
            pixels = self._pixels_from(row, size)
            sources = [
                code.bind("source", data.offset + n * image + y * height + x * width)
                for n, y, x in pixels
            ]
            for p in range(size if tail is None else tail.least, size):
                # Of a row that does not exist, read the one before it.
                exists = p < tail.count
                sources[p] = code.keep_index(tirx.Select(exists, sources[p], sources[p - 1]))
            return sources
        if tail is None:
            source = code.bind("source", data.offset + row * width)
            return [source + p * width for p in range(size)]
        return [code.bind("source", data.offset + (row + tail.row(p)) * width) for p in range(size)]

    def _pixels_from(self, row: Index, size: int) -> list[_Pixel]:
        """Return image, row and column of consecutive pixels; the last ones may not exist."""
        code = self.code
        if is_same(self._images * self._height, 1):
            return [(0, 0, row + p) for p in range(size)]
        line, x = map(code.keep_index, divide(code, "line", row, self._width_of_row, 2))
        image, y = map(code.keep_index, divide(code, "image", line, self._height, self._images))
        pixels: list[_Pixel] = []
        for _ in range(size):
            pixels.append((image, y, x))
            image, y, x = self._next_pixel(image, y, x)
        return pixels

    def _next_pixel(self, image: Index, y: Index, x: Index) -> _Pixel:
        """Return the pixel behind another."""
        code = self.code

        def following(axis: Index, extent: int, step: Any) -> tuple[Index, Any]:
            """Return the next place along an axis, and whether it begins again there."""
            after = code.keep_index(axis + tirx.Cast(code.index, step))
            again = equal(after, code.extent(extent))
            zero = tirx.IntImm(code.index, 0)
            return code.keep_index(tirx.Select(again, zero, after)), again

        x, is_line = following(x, self._width_of_row, tirx.IntImm("bool", 1))
        y, is_image = following(y, self._height, is_line)
        return code.keep_index(image + tirx.Cast(code.index, is_image)), y, x

    def channels(self, block: Index, write: Callable[[Channels], None]) -> None:
        """Call ``write`` for the output channels of a block; of alike parts once for all."""
        code, parts, statements = self.code, self.plan.parts, self.spec.statements
        if not self._are_alike:
            super().channels(block, write)
            return
        number, local = divide(code, "part", block, parts[0].blocks, len(parts))
        number = code.keep_index(number)
        steps = _steps(*statements[:2])

        def moved(access: Access) -> Access:
            offset = code.extent(access.offset) + number * code.extent(next(left))
            return Access(access.buffer, offset, access.strides)

        left = iter(steps)
        self.spec = replace(self.spec, statements=(statements[0].mapped(moved),))
        self._channels_of_part(parts[0], local, local * self._width(), write)
        self.spec = replace(self.spec, statements=statements)

    def _of_pixel(self, source: Any, pixel: int) -> Index:
        return source[pixel]

    def _store_rows(self, block: Index, row: Index, sums: list[Any], tail: Tail | None) -> None:
        """Apply the epilogue to the sums of rows that exist."""
        vectors, lanes = self.spec.blocking.vectors, self.isa.lanes
        size = len(sums) // vectors
        pixels = self._pixels_from(row, size)
        values = [load(total, 0, lanes) for total in sums]
        certain = size if tail is None else tail.least

        def store(channels: Channels, begin: int, end: int) -> None:
            of_pixels = [values[p * vectors :][:vectors] for p in range(begin, end)]
            self.store_pixels(pixels[begin:end], of_pixels, channels)

        def write(channels: Channels) -> None:
            store(channels, 0, certain)
            for p in range(certain, size):
                assert tail is not None
                with self.code.branch(p < tail.count):
                    store(channels, p, p + 1)

        self.channels(block, write)


def _are_alike(spec: Contraction) -> bool:
    """Return whether each part, e.g. a head, has one statement, all at equal distances."""
    if len(spec.parts) != len(spec.statements) or len(spec.parts) < 2:
        return False
    first, *others = spec.statements

    def placed(number: int) -> Statement:
        left = iter(_steps(first, others[0]))
        moved = first.mapped(lambda a: Access(a.buffer, a.offset + number * next(left), a.strides))
        return replace(moved, begin=number * first.count)

    return (
        len(set(spec.parts)) == 1
        and first.count == spec.parts[0]
        and len(accesses([first])) == len(accesses(others[:1]))
        and all(repr(placed(n)) == repr(s) for n, s in enumerate(spec.statements))
    )


def _steps(first: Statement, second: Statement) -> list[int]:
    """Return how far each access of a statement is from the next one's."""
    pairs = zip(accesses([first]), accesses([second]), strict=True)
    return [after.offset - before.offset for before, after in pairs]
