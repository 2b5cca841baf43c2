"""The first kernel of Winograd's filtering: transform tiles of the input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import tirx

from runtime_ext.cpu.forms.winograd.linear_map import Value, paired_rows
from runtime_ext.cpu.forms.winograd.spec import WinogradInput
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
_Columns = TileRun | tuple[Index, Index]


def winograd_input(spec: WinogradInput, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc that transforms the input, and its number of tiles.

    A tile is a chunk of channels of a row of the convolution's tiles.
    """
    rows, columns = spec.tiles.grid
    lines: int = spec.tiles.batch * rows
    chunk = min(spec.tiles.channels, _VECTORS * isa.lanes)
    chunks = ceil_div(spec.tiles.channels, chunk)
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    indexed = replace(spec, data=code.access(spec.data))
    with code.tiles(lines * chunks) as tile:
        line, part = divide(code, "line", tile, chunks, lines)
        image, row = divide(code, "image", line, rows, spec.tiles.batch)
        first = code.bind("first", line * code.extent(columns))
        writer = _Writer(indexed, code, image, row, first, isa.lanes)
        code.blocks(part, spec.tiles.channels, chunk, writer.chunk)
    return code.kernel()


class _Writer:
    def __init__(
        self,
        spec: WinogradInput,
        code: TileCode,
        image: Index,
        row: Index,
        first: Index,
        lanes: int,
    ) -> None:
        self.spec, self.code, self.buffers = spec, code, code.buffers
        self.image, self.row, self.first, self.lanes = image, row, first, lanes
        self.reading = spec.tiles.reading
        self.rows = kernel_rows(code, self.reading, row)
        #: A tile after the transform of its rows.
        self.halfway = code.on_stack(spec.tiles.positions * lanes)

    def chunk(self, begin: Index, count: int) -> None:
        """Write some channels of all tiles of the row."""
        code = self.code

        def tile(x: Index, run: _Columns) -> None:
            def vector(at: Index, width: int) -> None:
                self._vector(x, run, code.bind("channel", begin + at), width)

            code.vectors(count, self.lanes, vector)

        if is_open(self.reading.output[1]):
            row = OpenRow(code, self.reading, 1)
            row.write(RowWriter(tile, lambda x, first, end: tile(x, (first, end))))
            return
        for run in row_runs(self.reading, 1):
            with code.loop("x", run.begin, run.begin + run.tiles) as x:
                tile(x, run)

    def _vector(self, x: Index, run: _Columns, channel: Index, lanes: int) -> None:
        """Write a vector of channels of a tile: transform its rows first, then its columns."""
        spec, code, halfway = self.spec, self.code, self.halfway
        tiles, (by_row, by_column) = spec.tiles, spec.tiles.filterings
        size = by_column.size
        with code.loop("i", 0, by_row.size) as i:
            self._line(i, x, run, channel, lanes)
        number = code.bind("number", self.first + x)
        block, place = divide(code, "block", number, tiles.block, tiles.blocks)
        origin = (block * tiles.positions * tiles.block + place) * tiles.channels + channel
        origin = code.bind("origin", origin)
        with code.loop("j", 0, size) as j:
            at = [(i * size + j) * lanes for i in range(by_row.size)]
            values = [code.keep(load(halfway, a, lanes), lanes) for a in at]
            for i, value in enumerate(paired_rows(code, by_row.data, values, lanes)):
                target = origin + (i * size + j) * (tiles.block * tiles.channels)
                code.store(self.buffers[1], target, value, lanes)

    def _line(self, i: Index, x: Index, run: _Columns, channel: Index, lanes: int) -> None:
        """Store a row of the tile, transformed; zeros if it lies outside of the image."""
        code, (_, size) = self.code, self.spec.tiles.size
        places = [(i * size + j) * lanes for j in range(size)]
        inside = self._inside(i)
        if inside is not None:
            for place in places:
                code.store(self.halfway, place, constant(0.0, lanes), lanes)
        with code.branch(inside):
            values = self._transformed(i, x, run, channel, lanes)
            for place, value in zip(places, values, strict=True):
                stored = constant(0.0, lanes) if value is None else value
                code.store(self.halfway, place, stored, lanes)

    def _inside(self, i: Index) -> Any:
        """Return the condition that a row of the tile is in the image; None if all always are."""
        begin, end = self.rows
        if (begin, end) == (0, self.spec.tiles.size[0]):
            return None
        return tirx.all(begin <= i, i < end)

    def _transformed(
        self, i: Index, x: Index, run: _Columns, channel: Index, lanes: int
    ) -> list[Value]:
        spec, code, reading = self.spec, self.code, self.reading
        sn, sh, sw, _ = spec.data.strides
        y = self.row * reading.strides[0] + (i - reading.pads[0])
        origin = spec.data.offset + self.image * sn + y * sh + channel * spec.data.strides[3]
        values: list[Value] = []
        for k in range(reading.kernel[1]):
            at = origin + column(reading, x, k) * sw
            if isinstance(run, TileRun):
                values.append(self._element(at, lanes) if (0, k) in run.valid else None)
                continue
            (kept,) = code.accumulators(1, lanes)
            code.store(kept, 0, constant(0.0, lanes), lanes)
            with code.branch(tirx.all(run[0] <= k, k < run[1])):
                code.store(kept, 0, self._element(at, lanes), lanes)
            values.append(load(kept, 0, lanes))
        return paired_rows(code, spec.tiles.filterings[1].data, values, lanes)

    def _element(self, at: Index, lanes: int) -> Value:
        """Return a vector of the input, activated."""
        spec, code = self.spec, self.code
        value = load(self.buffers[0], at, lanes, spec.data.strides[3])
        if spec.prologue != ACC:
            value = activate(code, spec.prologue, value, lanes)
        return code.keep(value, lanes)
