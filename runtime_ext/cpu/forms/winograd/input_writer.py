"""The first kernel of Winograd's filtering: transform tiles of the input."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from runtime_ext.cpu.forms.winograd.linear_map import Value, paired_rows
from runtime_ext.cpu.forms.winograd.spec import WinogradConvolution, WinogradInput
from runtime_ext.cpu.kernels.open_rows import OpenRow, RowWriter
from runtime_ext.cpu.kernels.rows import TileRun, column, kernel_rows, row_runs
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, constant, load
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.statements import activate, divide
from tvm_ios.shapes.extent import ceil_div, is_open, symbols_in

#: Vectors of channels of a kernel's tile: cut finer, some images would have few tiles.
_VECTORS = 8
#: The columns of a tile that lie in the image: those of a run, or a range that the shape decides.
Columns = TileRun | tuple[Index, Index]


def winograd_input(spec: WinogradInput, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc that transforms the input, and its number of tiles.

    A tile is a chunk of channels of a row of the convolution's tiles.
    """
    rows, columns = spec.tiles.grid
    lines: int = spec.tiles.batch * rows
    chunk = min(spec.tiles.channels, _VECTORS * isa.lanes)
    chunks = ceil_div(spec.tiles.channels, chunk)
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    with code.tiles(lines * chunks) as tile:
        line, part = divide(code, "line", tile, chunks, lines)
        image, row = divide(code, "image", line, rows, spec.tiles.batch)
        first = code.bind("first", line * code.extent(columns))
        writer = TileTransform(spec, code, code.buffers[1], isa.lanes)
        writer.begin_row(image, row)

        def write(begin: Index, count: int) -> None:
            _write_row(writer, first, begin, count)

        code.blocks(part, spec.tiles.channels, chunk, write)
    return code.kernel()


def _write_row(writer: TileTransform, first: Index, begin: Index, count: int) -> None:
    """Write some channels of all tiles of a row, whose number is ``first``."""
    code, tiles, reading = writer.code, writer.tiles, writer.tiles.reading

    def tile(x: Index, columns: Columns) -> None:
        number = code.bind("number", first + x)
        block, place = divide(code, "block", number, tiles.block, tiles.blocks)
        origin = (block * tiles.positions * tiles.block + place) * tiles.channels
        writer.write(x, columns, code.bind("origin", origin), begin, count)

    if is_open(reading.output[1]):
        row = OpenRow(code, reading, 1)
        row.write(RowWriter(tile, lambda x, first, end: tile(x, (first, end))))
        return
    for run in row_runs(reading, 1):
        with code.loop("x", run.begin, run.begin + run.tiles) as x:
            tile(x, run)


class TileTransform:
    """A writer of the code that transforms tiles of the input, and stores them in a buffer.

    There, elements of one position are ``block`` times the channels from those of the next.
    """

    def __init__(
        self, spec: WinogradInput | WinogradConvolution, code: TileCode, target: Any, lanes: int
    ) -> None:
        self.tiles, self.code, self.lanes = spec.tiles, code, lanes
        self._data, self._prologue = code.access(spec.data), spec.prologue
        self._source, self._target = code.buffers[spec.data.buffer], target
        self._reading = spec.tiles.reading
        #: A tile after the transform of its rows.
        self._halfway = code.on_stack(spec.tiles.positions * lanes)

    def begin_row(self, image: Index, row: Index) -> None:
        """Find the image and the row of the tiles that are written next."""
        self._image, self._row = image, row
        self._rows = kernel_rows(self.code, self._reading, row)

    def write(self, x: Index, columns: Columns, origin: Index, begin: Index, count: int) -> None:
        """Write some channels of the row's tile at column ``x`` from element ``origin``."""
        code = self.code

        def vector(at: Index, width: int) -> None:
            channel = code.bind("channel", begin + at)
            self._vector(x, columns, code.bind("place", origin + channel), channel, width)

        code.vectors(count, self.lanes, vector)

    def _vector(
        self, x: Index, columns: Columns, origin: Index, channel: Index, lanes: int
    ) -> None:
        """Write a vector of channels of a tile: transform its rows first, then its columns."""
        code, halfway, tiles = self.code, self._halfway, self.tiles
        by_row, by_column = tiles.filterings
        size = by_column.size
        with code.loop("i", 0, by_row.size) as i:
            self._line(i, x, columns, channel, lanes)
        with code.loop("j", 0, size) as j:
            at = [(i * size + j) * lanes for i in range(by_row.size)]
            values = [code.keep(load(halfway, a, lanes), lanes) for a in at]
            for i, value in enumerate(paired_rows(code, by_row.data, values, lanes)):
                target = origin + (i * size + j) * (tiles.block * tiles.channels)
                code.store(self._target, target, value, lanes)

    def _line(self, i: Index, x: Index, columns: Columns, channel: Index, lanes: int) -> None:
        """Store a row of the tile, transformed; zeros if it lies outside of the image."""
        code, (_, size) = self.code, self.tiles.size
        places = [(i * size + j) * lanes for j in range(size)]
        inside = self._inside(i)
        if inside is not None:
            for place in places:
                code.store(self._halfway, place, constant(0.0, lanes), lanes)
        with code.branch(inside):
            values = self._transformed(i, x, columns, channel, lanes)
            for place, value in zip(places, values, strict=True):
                stored = constant(0.0, lanes) if value is None else value
                code.store(self._halfway, place, stored, lanes)

    def _inside(self, i: Index) -> Any:
        """Return the condition that a row of the tile is in the image; None if all always are."""
        begin, end = self._rows
        if (begin, end) == (0, self.tiles.size[0]):
            return None
        return tirx.all(begin <= i, i < end)

    def _transformed(
        self, i: Index, x: Index, columns: Columns, channel: Index, lanes: int
    ) -> list[Value]:
        code, reading, data = self.code, self._reading, self._data
        sn, sh, sw, sc = data.strides
        y = self._row * reading.strides[0] + (i - reading.pads[0])
        origin = data.offset + self._image * sn + y * sh + channel * sc
        values: list[Value] = []
        for k in range(reading.kernel[1]):
            at = origin + column(reading, x, k) * sw
            if isinstance(columns, TileRun):
                values.append(self._element(at, lanes) if (0, k) in columns.valid else None)
                continue
            (kept,) = code.accumulators(1, lanes)
            code.store(kept, 0, constant(0.0, lanes), lanes)
            with code.branch(tirx.all(columns[0] <= k, k < columns[1])):
                code.store(kept, 0, self._element(at, lanes), lanes)
            values.append(load(kept, 0, lanes))
        return paired_rows(code, self.tiles.filterings[1].data, values, lanes)

    def _element(self, at: Index, lanes: int) -> Value:
        """Return a vector of the input, activated."""
        value = load(self._source, at, lanes, self._data.strides[3])
        if self._prologue != ACC:
            value = activate(self.code, self._prologue, value, lanes)
        return self.code.keep(value, lanes)
