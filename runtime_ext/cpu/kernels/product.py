"""Products of two matrices that are both data: a register tile of rows by columns."""

from __future__ import annotations

from functools import partial
from typing import Any

from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, broadcast, constant, load, widths
from runtime_ext.kernels.spec import Product
from runtime_ext.kernels.statements import divide, store_vectors

#: Vectors of columns of a register tile, at most.
_VECTORS = 4
#: Rows of a tile, about: for these, some columns of the second matrix stay in the first-level
#: cache.
ROWS = 24


def product(spec: Product, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of a batch of products and its number of tiles (runs of rows)."""
    code = TileCode(spec.buffers, isa)
    images, heights, rows = spec.grid
    block = tile_rows(spec, isa)
    blocks = -(-rows // block)
    with code.tiles(images * heights * blocks) as tile:
        matrix, part = divide(code, "matrix", tile, blocks, images * heights)
        image, height = divide(code, "image", matrix, heights, images)
        writer = ProductWriter(spec, isa, code, (image, height))
        code.blocks(part, rows, block, writer.rows)
    return code.kernel()


def tile_rows(spec: Product, isa: Isa) -> int:
    """Return the rows of a tile: whole register tiles, equally many in all tiles if possible."""
    rows, block = spec.grid[2], _rows(_vectors(spec, isa), isa)
    tiles = max(1, -(-rows // ROWS))
    return min(rows, -(-rows // (tiles * block)) * block)


def _vectors(spec: Product, isa: Isa) -> int:
    """Return the vectors of a register tile that holds most sums; the fewest of equals."""
    most = min(_VECTORS, -(-spec.columns // isa.lanes))
    return max(range(min(2, most), most + 1), key=lambda v: (v * _rows(v, isa), -v))


def _rows(vectors: int, isa: Isa) -> int:
    """Return the rows of a register tile.

    One register is for each vector of the second matrix, and one for the first's element.
    """
    return max(1, (isa.registers - vectors - 1) // vectors)


class ProductWriter:
    """A writer of the code of some rows of a product.

    ``read_shift`` is added to the offset of the first matrix, ``stored_shift`` to that of results.
    """

    def __init__(
        self,
        spec: Product,
        isa: Isa,
        code: TileCode,
        matrix: tuple[Index, Index],
        read_shift: Index = 0,
        stored_shift: Index = 0,
    ) -> None:
        self.spec, self.isa, self.code, self.buffers = spec, isa, code, code.buffers
        self.image, self.height = matrix
        self._read_shift, self._stored_shift = read_shift, stored_shift

    def rows(self, row: Index, count: int) -> None:
        """Write all columns of some rows, a few columns at a time."""
        row = self.code.bind("row", row)
        width = _vectors(self.spec, self.isa) * self.isa.lanes
        self.code.vectors(self.spec.columns, width, partial(self._columns, row, count))

    def _columns(self, row: Index, count: int, column: Index, columns: int) -> None:
        column = self.code.bind("column", column)
        block = _rows(-(-columns // self.isa.lanes), self.isa)
        whole, rest = divmod(count, block)
        if whole > 1:
            with self.code.loop("block", 0, whole) as number:
                self._tile(row + number * block, block, column, columns)
        elif whole:
            self._tile(row, block, column, columns)
        if rest:
            self._tile(row + whole * block, rest, column, columns)

    def _tile(self, row: Index, count: int, column: Index, columns: int) -> None:
        spec, code, lanes = self.spec, self.code, self.isa.lanes
        wide = widths(columns, lanes)
        row = code.bind("first_row", row)
        tile = [[code.accumulators(1, width)[0] for width in wide] for _ in range(count)]
        for accumulators in tile:
            for accumulator, width in zip(accumulators, wide, strict=True):
                code.store(accumulator, 0, constant(0.0, width), width)
        first = self._origin(spec.data.offset, spec.data.strides) + row * spec.data.strides[2]
        second = self._origin(spec.other.offset, spec.other.strides) + column
        first, second = code.bind("first", first + self._read_shift), code.bind("second", second)
        with code.loop("k", 0, spec.depth) as k:
            at = code.bind("at", second + k * spec.other.strides[2])
            line = [
                code.keep(load(self.buffers[spec.other.buffer], at + v * lanes, width), width)
                for v, width in enumerate(wide)
            ]
            for p, accumulators in enumerate(tile):
                element = first + p * spec.data.strides[2] + k * spec.data.strides[3]
                value = code.keep(load(self.buffers[spec.data.buffer], element, 1), 1)
                for accumulator, vector, width in zip(accumulators, line, wide, strict=True):
                    repeated = broadcast(value, width)
                    total = load(accumulator, 0, width) + repeated * vector
                    code.store(accumulator, 0, total, width)
        stores = [
            (
                statement,
                (self.image, self.height, row + p),
                column + v * lanes,
                load(accumulator, 0, width),
                width,
            )
            for p, accumulators in enumerate(tile)
            for v, (accumulator, width) in enumerate(zip(accumulators, wide, strict=True))
            for statement in spec.statements
        ]
        store_vectors(code, self.buffers, stores, self._stored_shift)

    def _origin(self, offset: int, strides: tuple[int, int, int, int]) -> Index:
        return offset + self.image * strides[0] + self.height * strides[1]
