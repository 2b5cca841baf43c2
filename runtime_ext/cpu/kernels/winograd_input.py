"""The first kernel of Winograd's filtering: tiles of the input, transformed."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.linear_map import Value, paired_rows
from runtime_ext.cpu.kernels.rows import TileRun, column, kernel_rows, row_runs
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.cpu.kernels.vector_unit import VectorUnit
from runtime_ext.kernels.code import Index, constant, load
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.statements import activate, divide
from runtime_ext.kernels.winograd_convolution import WinogradInput

#: Vectors of channels of a kernel's tile: cut finer, some images would have few tiles.
_VECTORS = 8


def winograd_input(spec: WinogradInput, unit: VectorUnit) -> tuple[Any, int]:
    """The PrimFunc that transforms the input, and its number of tiles.

    A tile is a chunk of channels of a row of the convolution's tiles.
    """
    rows, columns = spec.tiles.grid
    chunk = min(spec.tiles.channels, _VECTORS * unit.lanes)
    chunks = -(-spec.tiles.channels // chunk)
    code = TileCode(spec.buffers)
    with code.tiles(spec.tiles.batch * rows * chunks) as tile:
        line, part = divide(code, "line", tile, chunks, spec.tiles.batch * rows)
        image, row = divide(code, "image", line, rows, spec.tiles.batch)
        writer = _Writer(spec, code, image, row, code.bind("first", line * columns))
        code.blocks(part, spec.tiles.channels, chunk, lambda c, n: writer.chunk(c, n, unit.lanes))
    return code.kernel()


class _Writer:
    def __init__(
        self, spec: WinogradInput, code: TileCode, image: Index, row: Index, first: Index
    ) -> None:
        self.spec, self.code, self.buffers = spec, code, code.buffers
        self.image, self.row, self.first = image, row, first
        self.reading = spec.tiles.reading
        self.rows = kernel_rows(code, self.reading, row)

    def chunk(self, begin: Index, count: int, lanes: int) -> None:
        """Some channels of all tiles of the row."""
        code = self.code
        for run in row_runs(self.reading, 1):
            with code.loop("x", run.begin, run.begin + run.tiles) as x:

                def write(at: Index, width: int, x: Index = x, run: TileRun = run) -> None:
                    self._vector(x, run, code.bind("channel", begin + at), width)

                code.vectors(count, lanes, write)

    def _vector(self, x: Index, run: TileRun, channel: Index, lanes: int) -> None:
        """A vector of channels of a tile: its rows are transformed first, then its columns."""
        spec, code = self.spec, self.code
        tiles, size = spec.tiles, spec.tiles.filtering.size
        lines = [self._line(i, x, run, channel, lanes) for i in range(size)]
        number = code.bind("number", self.first + x)
        block, place = divide(code, "block", number, tiles.block, tiles.blocks)
        origin = (block * tiles.positions * tiles.block + place) * tiles.channels + channel
        origin = code.bind("origin", origin)
        for j in range(size):
            values = [line[j] for line in lines]
            results = paired_rows(code, tiles.filtering.data, values, lanes)
            for i, value in enumerate(results):
                at = origin + (i * size + j) * (tiles.block * tiles.channels)
                stored = constant(0.0, lanes) if value is None else value
                code.store(self.buffers[1], at, stored, lanes)

    def _line(self, i: int, x: Index, run: TileRun, channel: Index, lanes: int) -> list[Value]:
        """A row of the tile, transformed; zeros if it lies outside of the image."""
        condition = self._exists(i)
        if condition is None:
            return self._transformed(i, x, run, channel, lanes)
        code = self.code
        kept = code.accumulators(self.spec.tiles.filtering.size, lanes)
        for buffer in kept:
            code.store(buffer, 0, constant(0.0, lanes), lanes)
        with code.branch(condition):
            values = self._transformed(i, x, run, channel, lanes)
            for buffer, value in zip(kept, values, strict=True):
                if value is not None:
                    code.store(buffer, 0, value, lanes)
        return [load(buffer, 0, lanes) for buffer in kept]

    def _exists(self, i: int) -> Any:
        """The condition that a row of the tile lies in the image; None if it always does."""
        begin, end = self.rows
        conditions: list[Any] = []
        reading = self.reading
        if i < reading.pads[0]:
            conditions.append(begin <= i)
        last = (reading.output[0] - 1) * reading.strides[0] + i - reading.pads[0]
        if last >= reading.input[0]:
            conditions.append(end > i)
        return tirx.all(*conditions) if conditions else None

    def _transformed(
        self, i: int, x: Index, run: TileRun, channel: Index, lanes: int
    ) -> list[Value]:
        spec, code, reading = self.spec, self.code, self.reading
        sn, sh, sw, sc = spec.data.strides
        y = self.row * reading.strides[0] + (i - reading.pads[0])
        origin = spec.data.offset + self.image * sn + y * sh + channel * sc
        values: list[Value] = []
        for k in range(reading.kernel[1]):
            if (0, k) not in run.valid:
                values.append(None)
                continue
            at = origin + column(reading, x, k) * sw
            value = load(self.buffers[0], at, lanes, sc)
            if spec.prologue != ACC:
                value = activate(code, spec.prologue, value, lanes)
            values.append(code.keep(value, lanes))
        return paired_rows(code, spec.tiles.filtering.data, values, lanes)
