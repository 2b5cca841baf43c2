"""Convolutions of images of any height and width, and of any number of images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.blocking import UNROLLED
from runtime_ext.cpu.kernels.contraction import (
    BUSY_PIXELS,
    ContractionWriter,
    Place,
    TilePlan,
    channel_blocks,
)
from runtime_ext.cpu.kernels.open_rows import OpenRow, RowWriter, require_apart
from runtime_ext.cpu.kernels.passes import Fetch, fetch_nothing
from runtime_ext.cpu.kernels.rows import TileRun, row_runs
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.cpu.kernels.words import step_of
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index
from runtime_ext.kernels.spec import Contraction
from runtime_ext.kernels.statements import divide
from tvm_ios.shapes.extent import hint_of, is_open

#: Multiply-adds of a loop step in smaller register tiles, about.
_SHORT = 48
#: Register tiles of a strip of a row, at least.
_STRIP = 4


class OpenRowsWriter(ContractionWriter):
    """A writer of the code of a convolution's tiles.

    A tile is a block of channels of a row of pixels, or of a strip of it. Rows of known width are
    cut as those of known images. Raises UserError if the kernel reads a buffer that it writes.
    """

    def __init__(self, spec: Contraction, isa: Isa, code: TileCode) -> None:
        require_apart(spec)
        blocking, window = spec.blocking, spec.window
        parts, blocks, outer = channel_blocks(spec, isa)
        rows: int = spec.batch * window.output[0]
        self._row = OpenRow(code, window, blocking.pixels) if is_open(window.output[1]) else None
        runs = () if self._row else row_runs(window, blocking.pixels)
        self._strip = 0
        if self._row and hint_of(rows) * blocks < blocking.tiles // 2:
            tiles = hint_of(window.output[1] * rows) * blocks // blocking.tiles
            self._strip = max(_STRIP * blocking.pixels, tiles, window.kernel[1])
        # Behind each row is an empty strip, unless it has one strip only.
        strips: int = window.output[1] // self._strip + 1 if self._strip else 1
        groups: int = rows * strips
        plan = TilePlan(runs, parts, blocks, rows, strips, self._strip, False, outer, 1)
        super().__init__(replace(spec, data=code.access(spec.data)), plan, isa, code)
        self.tiles = blocks * groups
        self._groups = code.extent(groups)
        worth = code.extent(rows * window.output[1] // BUSY_PIXELS)
        self._most = code.groups_of_a_region(worth, self._groups) if outer else 1

    def _number_of_passes(self) -> int:
        return 0

    def _fetch(self, place: Place, x0: Index) -> Fetch:
        return fetch_nothing

    def _unroll(self, words: int, accumulators: int) -> int:
        """Return the words of weights in a loop step: fewer in smaller tiles, to save code."""
        most = super()._unroll(words, accumulators)
        blocking = self.spec.blocking
        if words <= UNROLLED or accumulators == blocking.pixels * blocking.vectors:
            return most
        limit = max(1, min(most, _SHORT // accumulators))
        return step_of(words, limit, self._words_of_vector())

    def tile(self, tile: Index) -> None:
        """Write one block of channels for a row of pixels, or for a strip of it."""
        code, plan, window = self.code, self.plan, self.spec.window
        block, group = code.block_and_open_group(tile, plan.blocks, self._groups, self._most)
        line, strip = divide(code, "line", group, plan.strips, plan.rows)
        image, row = divide(code, "image", line, window.output[0], self.spec.batch)
        place = Place(block, image, row)
        if self._row is None:
            for run in plan.runs:
                self.run(place, run)
            return
        writer = RowWriter(
            lambda x, run: self._pixels(place, x, run),
            lambda x, begin, end: self._pixel(place, x, (begin, end)),
        )
        if not self._strip:
            self._row.write(writer)
            return
        width = code.extent(window.output[1])
        strips: Any = tirx.max(tirx.truncdiv(width, self._strip), 1)
        last = code.keep_index(strips - 1)
        with code.branch(strip <= last):
            begin = code.keep_index(strip * self._strip)
            end = code.keep_index(tirx.Select(strip < last, begin + self._strip, width))
            self._row.write(writer, begin, end)

    def _pixel(self, place: Place, x: Index, columns: tuple[Index, Index]) -> None:
        """Write a pixel, of these kernel columns."""
        self._columns = columns
        self._pixels(place, x, TileRun(0, 1, 1, frozenset()))
        self._columns = None

    _columns: tuple[Index, Index] | None = None

    def _kernel_row(
        self, place: Place, x0: Index, run: TileRun, ky: Index, accumulators: list[Any]
    ) -> None:
        if self._columns is None:
            super()._kernel_row(place, x0, run, ky, accumulators)
            return
        spec, code, window = self.spec, self.code, self.spec.window
        origin = self._origin(place, ky)
        with code.loop("kx", *self._columns) as kx:
            at = x0 * window.strides[1] + kx * window.dilations[1] - window.pads[1]
            source = code.bind("source", origin + at * spec.data.strides[2])
            step = (place.block * window.kernel[0] + ky) * window.kernel[1] + kx
            weights = code.bind("weights", step * (self._words() * self._width()))
            self._input_channels(spec.channels, [0], source, weights, accumulators, fetch_nothing)
