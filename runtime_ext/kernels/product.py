"""Products of two matrices that are both data: a register tile of rows by columns."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from runtime_ext.kernels.code import Index, constant, equal, load
from runtime_ext.kernels.spec import Product
from runtime_ext.kernels.statements import divide, store_statement
from runtime_ext.kernels.tile_code import TileCode
from runtime_ext.kernels.vector_unit import VectorUnit

#: Vectors of columns of a register tile.
_VECTORS = 4


def product(spec: Product, unit: VectorUnit) -> tuple[Any, int]:
    """The PrimFunc of a batch of products and its number of tiles (blocks of rows)."""
    code = TileCode(spec.buffers)
    images, heights, rows = spec.grid
    vectors = min(_VECTORS, -(-spec.columns // unit.lanes))
    # One register for each vector of the second matrix, and one for the first's element.
    block = min(rows, max(1, (unit.registers - vectors - 1) // vectors))
    blocks = -(-rows // block)
    with code.tiles(images * heights * blocks) as tile:
        matrix, part = divide(code, "matrix", tile, blocks, images * heights)
        image, height = divide(code, "image", matrix, heights, images)
        writer = _Writer(spec, unit, code, image, height)
        rest = rows - (blocks - 1) * block
        if rest == block or blocks == 1:
            writer.rows(part * block, rest, vectors)
        else:
            with code.branch(part < blocks - 1):
                writer.rows(part * block, block, vectors)
            with code.branch(equal(part, blocks - 1)):
                writer.rows((blocks - 1) * block, rest, vectors)
    return code.kernel()


class _Writer:
    def __init__(
        self,
        spec: Product,
        unit: VectorUnit,
        code: TileCode,
        image: Index,
        height: Index,
    ) -> None:
        self.spec, self.lanes, self.code, self.buffers = spec, unit.lanes, code, code.buffers
        self.image, self.height = image, height

    def rows(self, row: Index, count: int, vectors: int) -> None:
        """All columns of some rows."""
        row = self.code.bind("row", row)
        width = vectors * self.lanes
        whole = self.spec.columns // width
        if whole:
            with self.code.loop("block", 0, whole) as block:
                column = self.code.bind("column", block * width)
                self._tile(row, count, column, [self.lanes] * vectors)
        done = whole * width
        if done < self.spec.columns:
            starts = range(done, self.spec.columns, self.lanes)
            widths = [min(self.lanes, self.spec.columns - at) for at in starts]
            self._tile(row, count, done, widths)

    def _tile(self, row: Index, count: int, column: Index, widths: list[int]) -> None:
        spec, code = self.spec, self.code
        tile = [[code.accumulators(1, width)[0] for width in widths] for _ in range(count)]
        for accumulators in tile:
            for accumulator, width in zip(accumulators, widths, strict=True):
                code.store(accumulator, 0, constant(0.0, width), width)
        first = self._origin(spec.data.offset, spec.data.strides) + row * spec.data.strides[2]
        second = self._origin(spec.other.offset, spec.other.strides) + column
        first, second = code.bind("first", first), code.bind("second", second)
        with code.loop("k", 0, spec.depth) as k:
            at = code.bind("at", second + k * spec.other.strides[2])
            line = [
                code.keep(load(self.buffers[spec.other.buffer], at + v * self.lanes, width), width)
                for v, width in enumerate(widths)
            ]
            for p, accumulators in enumerate(tile):
                element = first + p * spec.data.strides[2] + k * spec.data.strides[3]
                value = code.keep(load(self.buffers[spec.data.buffer], element, 1), 1)
                for accumulator, vector, width in zip(accumulators, line, widths, strict=True):
                    repeated = value if width == 1 else tirx.Broadcast(value, width)
                    total = load(accumulator, 0, width) + repeated * vector
                    code.store(accumulator, 0, total, width)
        for p, accumulators in enumerate(tile):
            grid = (self.image, self.height, row + p)
            for v, (accumulator, width) in enumerate(zip(accumulators, widths, strict=True)):
                value = load(accumulator, 0, width)
                for statement in spec.statements:
                    inner = column + v * self.lanes
                    store_statement(code, self.buffers, statement, grid, inner, value, width)

    def _origin(self, offset: int, strides: tuple[int, int, int, int]) -> Index:
        return offset + self.image * strides[0] + self.height * strides[1]
