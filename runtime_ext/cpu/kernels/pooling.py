"""Pooling and depthwise convolutions: vectors of channels, pixels and kernel columns unrolled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.open_rows import OpenRow, RowWriter, require_apart
from runtime_ext.cpu.kernels.rows import TileRun, column, kernel_rows, row_runs
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, broadcast, constant, is_in_bytes, load
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Pooling
from runtime_ext.kernels.statements import activate, divide, store_vectors
from runtime_ext.kernels.tile_work import channels_a_tile
from tvm_ios.errors import UserError
from tvm_ios.shapes.extent import ceil_div, is_open, symbols_in


def pooling(spec: Pooling, isa: Isa, finer: bool = False) -> tuple[Any, int]:
    """Return the PrimFunc of a pooling or depthwise convolution and its number of tiles.

    A tile is a row of output pixels for a chunk of channels; the rows of a chunk follow one
    another, because they share input rows. The images may be of any number, height and width:
    raise UserError if the channels are open, or such a kernel reads a buffer that it writes.
    """
    if is_open(spec.channels):
        raise UserError(
            "there is no kernel of open extents for pools whose channels depend on the shape: give "
            "exact shapes"
        )
    symbols = symbols_in(spec)
    if symbols:
        require_apart(spec)
    height, width = spec.window.output
    rows: int = spec.batch * height
    chunk = channels_a_tile(spec, finer)
    chunks = ceil_div(spec.channels, chunk)
    code = TileCode(spec.buffers, isa, symbols=symbols)
    indexed = replace(spec, data=code.access(spec.data))
    with code.tiles(rows * chunks) as tile:
        part, line = divide(code, "part", tile, rows, chunks)
        image, row = divide(code, "image", line, height, spec.batch)
        of = _OpenRowWriter if is_open(width) else PoolingWriter
        writer = of(indexed, isa, code, image, row)
        code.blocks(part, spec.channels, chunk, writer.channels)
    return code.kernel()


@dataclass(frozen=True, slots=True)
class _Tile:
    """Neighbouring pixels of a row, for some channels."""

    #: The column of the first pixel.
    x0: Index
    #: The tiles of the row that have its code.
    run: TileRun
    #: The first channel, and the number of channels.
    channel: Index
    lanes: int


class PoolingWriter:
    """A writer of the code of one row of output pixels.

    ``read_shift`` and ``stored_shift`` are added to the offsets of the input and of the results,
    if these buffers hold only a part of the tensors.
    """

    def __init__(
        self,
        spec: Pooling,
        isa: Isa,
        code: TileCode,
        image: Index,
        row: Index,
        read_shift: Index = 0,
        stored_shift: Index = 0,
    ) -> None:
        self.spec, self.isa, self.buffers, self.code = spec, isa, code.buffers, code
        self.image, self.row = image, row
        self._read_shift, self._stored_shift = read_shift, stored_shift
        width = spec.window.kernel[1] if spec.kind == "depthwise" else 0
        self.pixels = max(1, min(8 if isa.registers < 32 else 12, isa.registers - 4 - width))
        self._lanes, self._dtype = isa.lanes, "float32"
        self._least = tirx.FloatImm("float32", -math.inf if spec.kind == "max" else 0.0)
        if _is_of_bytes(spec, code.buffers):
            self.buffers = [getattr(buffer, "buffer", buffer) for buffer in code.buffers]
            self._lanes, self._dtype = 4 * isa.lanes, "uint8"
            self._least = tirx.IntImm("uint8", 0)

    def channels(self, begin: Index, count: int) -> None:
        """Write the vectors of a chunk of channels, then the rest as one shorter vector."""
        code, begin = self.code, self.code.bind("c0", begin)
        self.rows = kernel_rows(code, self.spec.window, self.row)

        def write(at: Index, lanes: int) -> None:
            self._row(code.bind("channel", begin + at), lanes)

        code.vectors(count, self._lanes, write)

    def vectors(self, begin: Index, end: Index) -> None:
        """Write whole vectors of channels, from number ``begin`` to before ``end``."""
        code = self.code
        self.rows = kernel_rows(code, self.spec.window, self.row)
        with code.loop("c", begin, end) as c:
            self._row(code.bind("channel", c * self._lanes), self._lanes)

    def _row(self, channel: Index, lanes: int) -> None:
        for run in row_runs(self.spec.window, self.pixels):
            if run.tiles == 1:
                self._pixels(_Tile(run.begin, run, channel, lanes))
                continue
            with self.code.loop("x", 0, run.tiles) as x:
                x0 = self.code.bind("x0", x * run.pixels + run.begin)
                self._pixels(_Tile(x0, run, channel, lanes))

    def _pixels(self, tile: _Tile) -> None:
        spec, code, run, lanes = self.spec, self.code, tile.run, tile.lanes
        accumulators = code.accumulators(run.pixels, lanes, self._dtype)
        for acc in accumulators:
            code.store(acc, 0, broadcast(self._least, lanes), lanes)
        begin, end = self.rows
        if (begin, end) == (0, 1):
            self._kernel_row(0, tile, accumulators)
        else:
            with code.loop("ky", begin, end) as ky:
                self._kernel_row(ky, tile, accumulators)
        stores = []
        for p in range(run.pixels):
            value = load(accumulators[p], 0, lanes)
            if spec.kind == "mean":
                count = (end - begin) * self._columns_read(run, p)
                if isinstance(count, int):
                    divisor = constant(float(max(count, 1)), lanes)
                else:
                    divisor = tirx.Cast("float32", tirx.max(count, 1))
                    divisor = broadcast(divisor, lanes)
                value = value / divisor
            value = code.bind("value", value)
            grid = (self.image, self.row, tile.x0 + p)
            stores += [(s, grid, tile.channel, value, lanes) for s in spec.statements]
        store_vectors(code, self.buffers, stores, self._stored_shift)

    def _kernel_row(self, ky: Index, tile: _Tile, accumulators: list[Any]) -> None:
        """Write one kernel row; each input vector is read once for all pixels that use it."""
        window, lanes, valid = self.spec.window, tile.lanes, tile.run.valid
        origin, sw = self._origin(ky, tile), self.spec.data.strides[2]
        columns = sorted({k for _, k in valid})
        weights = {kx: self._weight(ky, kx, tile.channel, lanes) for kx in columns}
        readers: dict[int, list[tuple[int, int]]] = {}
        for p, kx in sorted(valid):
            readers.setdefault(p * window.strides[1] + kx * window.dilations[1], []).append((p, kx))
        for j in sorted(readers):
            value = self._element(origin + j * sw, lanes)
            for p, kx in readers[j]:
                self._accumulate(accumulators[p], value, weights[kx], lanes)

    def _origin(self, ky: Index, tile: _Tile) -> Index:
        """Return the element that a kernel row's column 0 reads for a tile's first pixel."""
        spec, window = self.spec, self.spec.window
        y = self.row * window.strides[0] + ky * window.dilations[0] - window.pads[0]
        sn, sh, sw, sc = spec.data.strides
        origin = spec.data.offset + self.image * sn + y * sh + tile.channel * sc
        origin = origin + self._read_shift
        return self.code.bind("origin", origin + column(window, tile.x0, 0) * sw)

    def _element(self, at: Index, lanes: int) -> Any:
        """Return a vector of the input."""
        spec, code = self.spec, self.code
        value = load(self.buffers[spec.data.buffer], at, lanes, spec.data.strides[3])
        if spec.prologue != ACC:
            value = activate(code, spec.prologue, value, lanes)
        return code.bind("x", value)

    def _weight(self, ky: Index, kx: Index, channel: Index, lanes: int) -> Any:
        """Return a vector of weights at one place of the kernel; None for a pool."""
        if self.spec.weight is None:
            return None
        at = (ky * self.spec.window.kernel[1] + kx) * self.spec.channels + channel
        return self.code.bind("w", load(self.buffers[self.spec.weight], at, lanes))

    def _accumulate(self, accumulator: Any, value: Any, weight: Any, lanes: int) -> None:
        """Add an element of the input to a result, or take the maximum."""
        total = load(accumulator, 0, lanes)
        if self.spec.kind == "max":
            # If one operand is NaN, no comparison holds, and the maximum is the right operand.
            updated = tirx.max(value, total)
            if self._dtype == "float32":
                is_number = value <= constant(math.inf, lanes)
                updated = tirx.Select(is_number, updated, value)
        elif self.spec.kind == "depthwise":
            updated = total + value * weight
        else:
            updated = total + value
        self.code.store(accumulator, 0, updated, lanes)

    def _columns_read(self, run: TileRun, pixel: int) -> Index:
        """Return how many kernel columns of a pixel read inside the input."""
        return sum((pixel, k) in run.valid for k in range(self.spec.window.kernel[1]))


class _OpenRowWriter(PoolingWriter):
    """A writer of the code of one row of any number of output pixels."""

    #: The kernel columns of the pixel that is written, if it is written alone.
    _columns: tuple[Index, Index] | None = None

    def _row(self, channel: Index, lanes: int) -> None:
        OpenRow(self.code, self.spec.window, self.pixels).write(
            RowWriter(
                lambda x, run: self._pixels(_Tile(x, run, channel, lanes)),
                partial(self._pixel, channel, lanes),
            )
        )

    def _pixel(self, channel: Index, lanes: int, x: Index, begin: Index, end: Index) -> None:
        """Write a pixel, of a range of kernel columns."""
        self._columns = begin, end
        self._pixels(_Tile(x, TileRun(0, 1, 1, frozenset()), channel, lanes))
        self._columns = None

    def _columns_read(self, run: TileRun, pixel: int) -> Index:
        if self._columns is None:
            return super()._columns_read(run, pixel)
        begin, end = self._columns
        return end - begin

    def _kernel_row(self, ky: Index, tile: _Tile, accumulators: list[Any]) -> None:
        if self._columns is None:
            super()._kernel_row(ky, tile, accumulators)
            return
        origin, lanes = self._origin(ky, tile), tile.lanes
        step = self.spec.window.dilations[1] * self.spec.data.strides[2]
        with self.code.loop("kx", *self._columns) as kx:
            value = self._element(origin + kx * step, lanes)
            weight = self._weight(ky, kx, tile.channel, lanes)
            self._accumulate(accumulators[0], value, weight, lanes)


def _is_of_bytes(spec: Pooling, buffers: Sequence[Any]) -> bool:
    """Return whether a maximum can stay in bytes: input and results have the same encoding."""
    used = [buffers[access.buffer] for access in (spec.data, *(s.target for s in spec.statements))]
    values = [spec.prologue, *(statement.value for statement in spec.statements)]
    return (
        spec.kind == "max"
        and all(value == ACC for value in values)
        and all(is_in_bytes(buffer) and buffer.encoding == used[0].encoding for buffer in used)
    )
