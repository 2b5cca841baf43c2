"""Products of two matrices that are both data: a register tile of rows by columns."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.blocking import most_pixels
from runtime_ext.cpu.kernels.tile_code import Tail, TileCode, tails
from runtime_ext.cpu.kernels.words import consecutive, spread
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, constant, equal, is_number, load, widths
from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.spec import Product
from runtime_ext.kernels.statements import Store, divide, is_padded, reads_in_order, store_vectors
from tvm_ios.shapes.extent import ceil_div, is_open, symbols_in

#: Vectors of columns of a register tile, at most.
_VECTORS = 4
#: Rows of a tile, about: for these, some columns of the second matrix stay in the first-level
#: cache.
ROWS = 24


def product(spec: Product, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of a batch of products and its number of tiles (runs of rows)."""
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    images, heights, rows = spec.grid
    block = tile_rows(spec, isa)
    blocks = ceil_div(rows, block)
    with code.tiles(images * heights * blocks) as tile:
        matrix, part = divide(code, "matrix", tile, blocks, images * heights)
        image, height = divide(code, "image", matrix, heights, images)
        writer = product_writer(spec)(spec, isa, code, (image, height))
        code.blocks(part, rows, block, writer.rows)
    return code.kernel()


def product_writer(spec: Product) -> type[ProductWriter]:
    """Return the writer for rows of a product."""
    is_any = is_open(spec.grid[2]) or is_open(spec.columns)
    return _OpenProductWriter if is_any else ProductWriter


def tile_rows(spec: Product, isa: Isa) -> int:
    """Return the rows of a tile: whole register tiles, equally many in all tiles if possible."""
    rows, block = spec.grid[2], _rows(_vectors(spec, isa), isa)
    if is_open(rows):
        return ceil_div(ROWS, block) * block
    tiles = max(1, ceil_div(rows, ROWS))
    return min(rows, ceil_div(rows, tiles * block) * block)


def _vectors(spec: Product, isa: Isa) -> int:
    """Return the vectors of a register tile that holds most sums; the fewest of equals."""
    columns = ceil_div(spec.columns, isa.lanes)
    most = _VECTORS if is_open(columns) else min(_VECTORS, columns)
    return max(range(min(2, most), most + 1), key=lambda v: (v * _rows(v, isa), -v))


def _rows(vectors: int, isa: Isa) -> int:
    """Return the rows of a register tile.

    One register is for each vector of the second matrix, and one for the first's element.
    """
    return max(1, most_pixels(vectors, isa))


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
        self.data, self.other = code.access(spec.data), code.access(spec.other)
        self.image, self.height = matrix
        self._read_shift, self._stored_shift = read_shift, stored_shift

    def rows(self, row: Index, count: int) -> None:
        """Write all columns of some rows, a few columns at a time."""
        row = self.code.bind("row", row)
        width = _vectors(self.spec, self.isa) * self.isa.lanes
        self.code.vectors(self.spec.columns, width, partial(self._columns, row, count))

    def _columns(self, row: Index, count: int, column: Index, columns: int) -> None:
        column = self.code.bind("column", column)
        block = _rows(ceil_div(columns, self.isa.lanes), self.isa)
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
        first = self._origin(self.data) + row * self.data.strides[2]
        second = self._origin(self.other) + column
        first, second = code.bind("first", first + self._read_shift), code.bind("second", second)
        elements = self._elements(first, count)

        def read(p: int, k: Index, words: int) -> Any:
            at = elements[p] + k * self.data.strides[3]
            return code.keep(load(self.buffers[spec.data.buffer], at, words), words)

        def multiply(first: Index, depth: int) -> None:
            for k, word_of in consecutive(range(count), first, depth, together, read):
                at = code.bind("at", second + k * self.other.strides[2])
                line = [
                    code.keep(load(self.buffers[spec.other.buffer], at + v * lanes, width), width)
                    for v, width in enumerate(wide)
                ]
                for p, accumulators in enumerate(tile):
                    word = word_of(p)
                    for accumulator, vector, width in zip(accumulators, line, wide, strict=True):
                        total = load(accumulator, 0, width) + spread([word], width) * vector
                        code.store(accumulator, 0, total, width)

        together = self.isa.words if is_number(self.data.strides[3], 1) else 1
        code.steps("k", code.extent(spec.depth), together, multiply)
        self._store(
            [
                [
                    (
                        statement,
                        (self.image, self.height, row + p),
                        column + v * lanes,
                        load(accumulator, 0, width),
                        width,
                    )
                    for v, (accumulator, width) in enumerate(zip(accumulators, wide, strict=True))
                    for statement in spec.statements
                ]
                for p, accumulators in enumerate(tile)
            ]
        )

    def _elements(self, first: Index, count: int) -> list[Index]:
        """Return the first element of each row of a register tile."""
        return [first + p * self.data.strides[2] for p in range(count)]

    def _store(self, rows: list[list[Store]]) -> None:
        """Store the vectors of each row of a register tile."""
        store_vectors(self.code, self.buffers, list(chain(*rows)), self._stored_shift)

    def _origin(self, access: Access) -> Index:
        return access.offset + self.image * access.strides[0] + self.height * access.strides[1]


class _OpenProductWriter(ProductWriter):
    """A writer of the code of any number of rows and columns of a product."""

    #: The rows of the register tile that is written, if it is a tail.
    _tail: Tail | None = None
    #: The columns of its last vector, if others may not be stored.
    _last: Index | None = None

    def rows(self, row: Index, count: Index) -> None:
        """Write all columns of some rows, a few columns at a time."""
        spec, code, lanes = self.spec, self.code, self.isa.lanes
        if not is_open(spec.columns):
            super().rows(row, count)
            return
        row = code.bind("row", row)
        vectors, together = ceil_div(spec.columns, lanes), _vectors(spec, self.isa)
        is_padded = self._is_padded()
        steps = (vectors if is_padded else spec.columns // lanes) // together
        with code.loop("c", 0, code.extent(steps)) as c:
            self._columns(row, count, c * (together * lanes), together * lanes)
        done = code.extent(steps * together * lanes)
        for number in range(1, together if is_padded else together + 1):
            with code.branch(equal(code.extent(vectors - steps * together), number)):
                self._last = (
                    None if is_padded else code.extent(spec.columns - vectors * lanes + lanes)
                )
                self._columns(row, count, done, number * lanes)
                self._last = None

    def _is_padded(self) -> bool:
        """Return whether vectors may be stored that lie partly behind the last column."""
        grid, shapes = self.spec.grid, self.spec.buffers
        return all(
            reads_in_order(s.value) and is_padded(s.target, grid, shapes[s.target.buffer])
            for s in self.spec.statements
        )

    def _columns(self, row: Index, count: Index, column: Index, columns: int) -> None:
        if isinstance(count, int):
            super()._columns(row, count, column, columns)
            return
        code = self.code
        column = code.bind("column", column)
        block = _rows(ceil_div(columns, self.isa.lanes), self.isa)
        block = min(block, tile_rows(self.spec, self.isa))
        whole = code.bind("whole", tirx.truncdiv(count, block))
        with code.loop("block", 0, whole) as number:
            self._tile(row + number * block, block, column, columns)
        left = code.bind("left", count - whole * block)
        for tail in tails(left, block):
            with code.branch(tail.condition):
                self._tail = tail
                self._tile(row + whole * block, tail.size, column, columns)
                self._tail = None

    def _elements(self, first: Index, count: int) -> list[Index]:
        if self._tail is None:
            return super()._elements(first, count)
        step = self.data.strides[2]
        return [self.code.bind("row", first + self._tail.row(p) * step) for p in range(count)]

    def _store(self, rows: list[list[Store]]) -> None:
        certain = len(rows) if self._tail is None else self._tail.least
        self._store_vectors(rows[:certain])
        for p in range(certain, len(rows)):
            assert self._tail is not None
            with self.code.branch(p < self._tail.count):
                self._store_vectors(rows[p : p + 1])

    def _store_vectors(self, rows: list[list[Store]]) -> None:
        if self._last is None:
            super()._store(rows)
            return
        last = -len(self.spec.statements)
        super()._store([row[:last] for row in rows])
        self.code.stored = self._last
        super()._store([row[last:] for row in rows])
        self.code.stored = None
