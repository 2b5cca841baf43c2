"""Products of two matrices that are both data: a register tile of rows by columns."""

from __future__ import annotations

from functools import partial
from typing import Any

from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.cpu.kernels.vector_unit import VectorUnit
from runtime_ext.kernels.code import Index, broadcast, constant, load, widths
from runtime_ext.kernels.spec import Product
from runtime_ext.kernels.statements import divide, store_statement

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
        writer = _Writer(spec, unit.lanes, vectors, code, image, height)
        code.blocks(part, rows, block, writer.rows)
    return code.kernel()


class _Writer:
    def __init__(
        self,
        spec: Product,
        lanes: int,
        vectors: int,
        code: TileCode,
        image: Index,
        height: Index,
    ) -> None:
        self.spec, self.code, self.buffers = spec, code, code.buffers
        self.lanes, self.width = lanes, vectors * lanes
        self.image, self.height = image, height

    def rows(self, row: Index, count: int) -> None:
        """All columns of some rows."""
        row = self.code.bind("row", row)
        self.code.vectors(self.spec.columns, self.width, partial(self._tile, row, count))

    def _tile(self, row: Index, count: int, column: Index, columns: int) -> None:
        spec, code, wide = self.spec, self.code, widths(columns, self.lanes)
        column = code.bind("column", column)
        tile = [[code.accumulators(1, width)[0] for width in wide] for _ in range(count)]
        for accumulators in tile:
            for accumulator, width in zip(accumulators, wide, strict=True):
                code.store(accumulator, 0, constant(0.0, width), width)
        first = self._origin(spec.data.offset, spec.data.strides) + row * spec.data.strides[2]
        second = self._origin(spec.other.offset, spec.other.strides) + column
        first, second = code.bind("first", first), code.bind("second", second)
        with code.loop("k", 0, spec.depth) as k:
            at = code.bind("at", second + k * spec.other.strides[2])
            line = [
                code.keep(load(self.buffers[spec.other.buffer], at + v * self.lanes, width), width)
                for v, width in enumerate(wide)
            ]
            for p, accumulators in enumerate(tile):
                element = first + p * spec.data.strides[2] + k * spec.data.strides[3]
                value = code.keep(load(self.buffers[spec.data.buffer], element, 1), 1)
                for accumulator, vector, width in zip(accumulators, line, wide, strict=True):
                    repeated = broadcast(value, width)
                    total = load(accumulator, 0, width) + repeated * vector
                    code.store(accumulator, 0, total, width)
        for p, accumulators in enumerate(tile):
            grid = (self.image, self.height, row + p)
            for v, (accumulator, width) in enumerate(zip(accumulators, wide, strict=True)):
                value = load(accumulator, 0, width)
                for statement in spec.statements:
                    inner = column + v * self.lanes
                    store_statement(code, self.buffers, statement, grid, inner, value, width)

    def _origin(self, offset: int, strides: tuple[int, int, int, int]) -> Index:
        return offset + self.image * strides[0] + self.height * strides[1]
