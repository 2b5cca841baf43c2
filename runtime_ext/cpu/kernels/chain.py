"""Two fused kernels: the first's results for a tile of the second stay in a core's cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.blocking import row_cycles
from runtime_ext.cpu.kernels.contraction import ContractionWriter, Place, plan_tiles
from runtime_ext.cpu.kernels.pooling import PoolingWriter
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.chain import Chain
from runtime_ext.kernels.code import Index
from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.spec import Contraction, Pooling
from runtime_ext.kernels.statements import divide
from runtime_ext.kernels.tile_work import channels_a_tile
from tvm_ios.errors import UserError
from tvm_ios.shapes.extent import ceil_div, is_open, symbols_in


def chain(spec: Chain, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of a chain and its number of tiles; its images may be of any number.

    Raise UserError if their sizes are open.
    """
    window = next(s.window for s in (spec.first, spec.second) if isinstance(s, Pooling))
    if symbols_in(window):
        raise UserError(
            "there is no kernel of open extents for a Chain over images of any size: give exact "
            "shapes"
        )
    if isinstance(spec.first, Pooling):
        assert isinstance(spec.second, Contraction)
        return _WindowThenProduct(spec, spec.first, spec.second, isa).kernel()
    assert isinstance(spec.second, Pooling)
    return _ProductThenWindow(spec, spec.first, spec.second, isa).kernel()


class _WindowThenProduct:
    """A writer of a pool followed by a product; a tile is all channels of some rows of pixels."""

    def __init__(self, spec: Chain, first: Pooling, second: Contraction, isa: Isa) -> None:
        self.first, self.second, self.isa = first, second, isa
        self.rows, self.handed = spec.rows, len(spec.buffers)
        self.code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
        self.columns, self.channels = first.window.output[1], first.channels

    def kernel(self) -> tuple[Any, int]:
        code, rows = self.code, self.rows
        lines = self.first.batch * self.first.window.output[0]
        with code.tiles(ceil_div(lines, rows)) as tile:
            code.buffers.append(code.on_stack(rows * self.columns * self.channels))

            def write(line: Index, count: int) -> None:
                self._reduce(line, count)
                self._multiply(tile, count)

            if is_open(lines):
                # The rows of any number of images are whole tiles.
                write(code.bind("first", tile * rows), rows)
            else:
                code.blocks(tile, lines, rows, write)
            code.buffers.pop()
        return code.kernel()

    def _reduce(self, line: Index, rows: int) -> None:
        """Write all channels of some rows to the tile's memory."""
        code, height = self.code, self.first.window.output[0]
        row = self.columns * self.channels
        target = Access(self.handed, 0, (height * row, row, self.channels, 1))
        (statement,) = self.first.statements
        first = replace(self.first, statements=(replace(statement, target=target),))
        lanes = self.isa.lanes
        vectors, rest = divmod(self.channels, lanes)
        chunk = max(1, channels_a_tile(first, finer=False) // lanes)

        def of_rows(write: Callable[[PoolingWriter], None]) -> None:
            with code.loop("y", 0, rows) as y:
                image, at = divide(code, "image", line + y, height, first.batch)
                write(PoolingWriter(first, self.isa, code, image, at, 0, -line * row))

        # Share code between the vectors of all chunks: these kernels are large and slow to compile.
        with code.loop("chunk", 0, -(-vectors // chunk)) as number:
            begin = code.bind("begin", number * chunk)
            end = begin + chunk if vectors % chunk == 0 else tirx.min(begin + chunk, vectors)
            of_rows(lambda writer: writer.vectors(begin, end))
        if rest:
            of_rows(lambda writer: writer.channels(self.channels - rest, rest))

    def _multiply(self, tile: Index, rows: int) -> None:
        """Write code that multiplies a tile's rows, merged into one row of the tile's number."""
        second = _in_rows(self.second, self.rows * self.columns, rows * self.columns)
        second = replace(second, data=Access(self.handed, 0, (0, 0, self.channels, 1)))
        plan = plan_tiles(second, self.isa)
        writer = ContractionWriter(second, plan, self.isa, self.code)
        with self.code.loop("block", 0, plan.blocks) as block:
            for run in plan.runs:
                writer.run(Place(block if plan.blocks > 1 else 0, 0, tile), run)


class _ProductThenWindow:
    """A writer of a product followed by a pool; a tile is a block of channels for some rows.

    Rows that two tiles read are computed for each of them.
    """

    def __init__(self, spec: Chain, first: Contraction, second: Pooling, isa: Isa) -> None:
        self.first, self.second, self.isa = first, second, isa
        self.rows, self.handed = spec.rows, len(spec.buffers)
        self.code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
        self.height, self.width = second.window.input
        self.block = first.blocking.vectors * isa.lanes

    def kernel(self) -> tuple[Any, int]:
        code, window = self.code, self.second.window
        lines, batch = window.output[0], self.second.batch
        strips, blocks = -(-lines // self.rows), -(-self.second.channels // self.block)
        held = self.height if strips == 1 else self._reach(self.rows)
        with code.tiles(batch * strips * blocks) as tile:
            code.buffers.append(code.on_stack(held * self.width * self.block))
            place, block = divide(code, "place", tile, blocks, batch * strips)
            image, strip = divide(code, "image", place, strips, batch)

            def write(line: Index, rows: int) -> None:
                begin = self._multiply(image, line, rows, block, strips == 1)
                self._reduce(image, line, rows, block, begin)

            code.blocks(strip, lines, self.rows, write)
            code.buffers.pop()
        return code.kernel()

    def _reach(self, rows: int) -> int:
        window = self.second.window
        return (rows - 1) * window.strides[0] + (window.kernel[0] - 1) * window.dilations[0] + 1

    def _multiply(self, image: Index, line: Index, rows: int, block: Index, whole: bool) -> Index:
        """Compute the product's rows that the result's rows read; return the first of them."""
        code, window = self.code, self.second.window
        pixels = self.height * self.width if whole else self.width
        first = _in_rows(self.first, pixels, pixels)
        first = replace(first, blocking=replace(first.blocking, pixels=self._pixels(first)))
        (statement,) = first.statements
        target = Access(self.handed, 0, (0, pixels * self.block, self.block, 1))
        first = replace(first, statements=(replace(statement, target=target),))
        plan = plan_tiles(first, self.isa)
        shift = code.bind("shift", -block * self.block)
        if whole:
            shift = shift - image * (pixels * self.block)
            writer = ContractionWriter(first, plan, self.isa, code, shift)
            for run in plan.runs:
                writer.run(Place(block, 0, image), run)
            return 0
        top = line * window.strides[0] - window.pads[0]
        bottom = top + self._reach(rows)
        if isinstance(top, int):
            begin, end = max(0, top), min(self.height, bottom)
        else:
            begin = code.bind("top", tirx.max(0, top))
            end = code.bind("bottom", tirx.min(self.height, bottom))
        shift = shift - (image * self.height + begin) * (pixels * self.block)
        writer = ContractionWriter(first, plan, self.isa, code, shift)
        with code.loop("y", begin, end) as y:
            at = code.bind("line", image * self.height + y)
            for run in plan.runs:
                writer.run(Place(block, 0, at), run)
        return begin

    def _pixels(self, spec: Contraction) -> int:
        """Return the best pixels of a register tile, given the vectors of packed weights."""
        cycles = {
            tile.pixels: c
            for tile, c in row_cycles(spec, self.isa).items()
            if tile.vectors == spec.blocking.vectors
        }
        return min(cycles, key=lambda pixels: (cycles[pixels], -pixels))

    def _reduce(self, image: Index, line: Index, rows: int, block: Index, begin: Index) -> None:
        """Write the pool's results for some rows."""
        code, row = self.code, self.width * self.block
        second = replace(self.second, data=Access(self.handed, 0, (0, row, self.block, 1)))
        shift = code.bind("read_shift", -begin * row - block * self.block)
        with code.loop("row", 0, rows) as y:
            at = code.bind("at", line + y)
            writer = PoolingWriter(second, self.isa, code, image, at, shift)
            code.blocks(block, second.channels, self.block, writer.channels)


def _in_rows(spec: Contraction, apart: int, pixels: int) -> Contraction:
    """Return a one-row product as one over several rows, which begin ``apart`` pixels apart."""

    def moved(at: Access) -> Access:
        _, _, w, c = at.strides
        return Access(at.buffer, at.offset, (0, apart * w, w, c))

    window = replace(spec.window, input=(1, pixels), output=(1, pixels))
    statements = tuple(s.mapped(moved) for s in spec.statements)
    return replace(spec, window=window, data=moved(spec.data), statements=statements)
