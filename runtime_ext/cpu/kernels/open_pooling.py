"""Pooling and depthwise convolutions of any number of images of any height and width."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from runtime_ext.cpu.kernels.open_convolution import require_apart
from runtime_ext.cpu.kernels.open_rows import OpenRow, RowWriter
from runtime_ext.cpu.kernels.pooling import PoolingWriter
from runtime_ext.cpu.kernels.rows import TileRun
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, load
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Pooling
from runtime_ext.kernels.statements import activate, divide
from runtime_ext.kernels.tile_work import channels_a_tile
from tvm_ios.errors import UserError
from tvm_ios.shapes.extent import ceil_div, is_open, symbols_in


def open_pooling(spec: Pooling, isa: Isa, finer: bool = False) -> tuple[Any, int]:
    """Return the PrimFunc of a pooling of open extents and its number of tiles.

    Tiles are those of :func:`runtime_ext.cpu.kernels.pooling.pooling`. Raise UserError if its
    channels are open, or the kernel reads a buffer that it writes.
    """
    require_apart(spec)
    if is_open(spec.channels):
        raise UserError(
            "there is no kernel of open extents for pools whose channels depend on the shape: give "
            "exact shapes"
        )
    height, width = spec.window.output
    rows: int = spec.batch * height
    chunk = channels_a_tile(spec, finer)
    chunks = ceil_div(spec.channels, chunk)
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    indexed = replace(spec, data=code.access(spec.data))
    with code.tiles(rows * chunks) as tile:
        part, line = divide(code, "part", tile, rows, chunks)
        image, row = divide(code, "image", line, height, spec.batch)
        of = _Writer if is_open(width) else PoolingWriter
        writer = of(indexed, isa, code, image, row)
        code.blocks(part, spec.channels, chunk, writer.channels)
    return code.kernel()


class _Writer(PoolingWriter):
    """A writer of the code of one row of output pixels of any width."""

    _columns: tuple[Index, Index] | None = None

    def _row(self, channel: Index, lanes: int) -> None:
        OpenRow(self.code, self.spec.window, self.pixels).write(
            RowWriter(
                lambda x, run: self._pixels(x, run, channel, lanes),
                partial(self._pixel, channel, lanes),
            )
        )

    def _pixel(self, channel: Index, lanes: int, x: Index, begin: Index, end: Index) -> None:
        """Write a pixel, of a range of kernel columns."""
        self._columns = begin, end
        self._pixels(x, TileRun(0, 1, 1, frozenset()), channel, lanes)
        self._columns = None

    def _columns_read(self, run: TileRun, pixel: int) -> Index:
        if self._columns is None:
            return super()._columns_read(run, pixel)
        begin, end = self._columns
        return end - begin

    def _kernel_row(
        self,
        ky: Index,
        x0: Index,
        run: TileRun,
        channel: Index,
        lanes: int,
        accumulators: list[Any],
    ) -> None:
        if self._columns is None:
            super()._kernel_row(ky, x0, run, channel, lanes, accumulators)
            return
        spec, code, window = self.spec, self.code, self.spec.window
        _, _, sw, sc = spec.data.strides
        origin = code.bind("origin", self._origin(ky, channel))
        with code.loop("kx", *self._columns) as kx:
            at = x0 * window.strides[1] + kx * window.dilations[1] - window.pads[1]
            value = load(self.buffers[spec.data.buffer], origin + at * sw, lanes, sc)
            if spec.prologue != ACC:
                value = activate(code, spec.prologue, value, lanes)
            weight = None
            if spec.weight is not None:
                weights = (ky * window.kernel[1] + kx) * spec.channels + channel
                weight = code.bind("w", load(self.buffers[spec.weight], weights, lanes))
            self._accumulate(accumulators[0], code.bind("x", value), weight, lanes)
