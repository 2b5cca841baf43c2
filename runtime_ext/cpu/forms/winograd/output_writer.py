"""The second kernel of Winograd's filtering: products, and their transform to outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain, pairwise
from math import ceil
from typing import Any

from tvm import tirx

from runtime_ext.cpu.forms.winograd.linear_map import CoefficientTable, Value, paired_columns
from runtime_ext.cpu.forms.winograd.spec import WinogradConvolution, WinogradOutput, WinogradTiles
from runtime_ext.cpu.kernels.passes import Fetch, Passes, fetch_nothing
from runtime_ext.cpu.kernels.tile_code import TileCode, regions
from runtime_ext.cpu.kernels.words import WordOf, consecutive, spread, step_of
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, constant, integer, load
from runtime_ext.kernels.cut import ChannelPart, channel_parts
from runtime_ext.kernels.open_shapes import is_multiple
from runtime_ext.kernels.statements import Store, divide, store_vectors
from tvm_ios.shapes.extent import is_open, symbols_in

#: Most multiply-adds of a step of the innermost loop: enough to hide the loop's overhead.
_UNROLLED = 32
#: Spare elements between the products of two positions, so that they do not share cache sets.
_APART = 16
#: The time to read a value that another core has just written, as a multiple of that of a weight.
_FAR = 4
#: Sizes of the last register tile, where the shape decides how many tiles are left.
_TAILS = 4
#: Returns the block of output channels and the group of the convolution's tiles of a kernel's tile.
_BlockAndGroup = Callable[[Index], tuple[Index, Index]]


def winograd_output(spec: WinogradOutput, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of the products and outputs, and its number of tiles.

    A tile is a block of output channels of a block of the convolution's tiles: its products stay
    in the caches until they are transformed.
    """
    width = spec.vectors * isa.lanes
    parts = channel_parts(spec.parts, width)
    blocks = sum(part.blocks for part in parts)
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    placed = _open_order if is_open(spec.tiles.blocks) else _order
    block_and_group = placed(spec, code, blocks, width)
    with code.tiles(blocks * spec.tiles.blocks) as tile:
        block, group = block_and_group(tile)
        writer = ProductsWriter(spec, parts, isa, code, code.buffers[spec.data])
        of_group = spec.tiles.positions * spec.tiles.block * spec.tiles.channels
        writer.write(group, block, code.bind("of_group", group * of_group))
    return code.kernel()


def _order(spec: WinogradOutput, code: TileCode, blocks: int, width: int) -> _BlockAndGroup:
    """Return a function of a kernel's tile, in regions of groups that are chosen to read least.

    It returns the block of channels and the group, a block of the convolution's tiles.
    """
    tiles = spec.tiles
    data, weights = tiles.blocks * tiles.block, blocks * width
    number = tiles.blocks
    if data + tiles.blocks * weights > blocks * data + weights:
        number = regions(_FAR * tiles.tiles / weights, tiles.blocks)
    return lambda tile: code.block_and_group(tile, blocks, tiles.blocks, number)


def _open_order(spec: WinogradOutput, code: TileCode, blocks: int, width: int) -> _BlockAndGroup:
    """Return the function that :func:`_order` returns, for an open number of groups."""
    tiles, weights = spec.tiles, blocks * width
    groups, most = code.extent(tiles.blocks), 1
    more = tiles.block + weights - blocks * tiles.block
    if more > 0:
        worth = code.extent(_FAR * tiles.tiles // weights)
        of_region = code.groups_of_a_region(worth, groups)
        most = code.keep_index(
            tirx.Select(groups * more <= weights, integer(1, code.index), of_region)
        )
    return lambda tile: code.block_and_open_group(tile, blocks, groups, most)


class ProductsWriter:
    """A writer of the code that multiplies a block of tiles, and transforms the products.

    ``data`` is the buffer of the transformed tiles.
    """

    def __init__(
        self,
        spec: WinogradOutput | WinogradConvolution,
        parts: tuple[ChannelPart, ...],
        isa: Isa,
        code: TileCode,
        data: Any,
    ) -> None:
        self.spec, self.parts, self.code, self.data = spec, parts, code, data
        self.buffers, self.lanes, self.words = code.buffers, isa.lanes, isa.words
        self.width = spec.vectors * isa.lanes
        #: Elements from the products of one position to those of the next.
        self.pitch = spec.tiles.block * self.width + _APART
        self.products = code.on_stack(spec.tiles.positions * self.pitch)
        # Memory before the coefficients holds a tile after the transform of its columns.
        by_row, by_column = spec.tiles.filterings
        halfway = by_row.outputs * by_column.size * isa.lanes
        inverses = (by_row.inverse, by_column.inverse)
        self.table = CoefficientTable(code, inverses, halfway, isa.lanes)

    def write(self, group: Index, block: Index, origin: Index) -> None:
        """Write a block of channels of a group: all products, then all outputs.

        The transformed tiles of the group begin at element ``origin`` of their buffer.
        """
        tiles, code = self.spec.tiles, self.code
        code.blocks(
            group,
            tiles.tiles,
            tiles.block,
            lambda _, count: self._multiply(count, block, origin),
        )
        first = code.bind("first", group * tiles.block)
        with code.loop("t", 0, tiles_of(code, tiles, first)) as t:
            self._outputs(t, code.bind("number", first + t), block)

    def _multiply(self, count: Index, block: Index, origin: Index) -> None:
        """Write the products of all positions of ``count`` tiles."""
        tiles, code = self.spec.tiles, self.code
        with code.loop("position", 0, tiles.positions) as position:
            data = code.bind("data", origin + position * (tiles.block * tiles.channels))
            run = code.bind("run", block * tiles.positions + position)
            weights = code.bind("weights", run * (tiles.channels * self.width))
            target = code.bind("target", position * self.pitch)

            def multiply(rows: int, row: Index, fetch: Fetch) -> None:
                row = code.bind("row", row)
                self._register_tile(data + row * tiles.channels, weights, rows, target, row, fetch)

            if isinstance(count, int):
                heights = register_tiles(count, self.spec.rows)
                number, begin, done = sum(number for _, number in heights), 0, 0
                weight = self.buffers[self.spec.weight]
                passes = Passes(weight, tiles.channels * self.width, number)
                for rows, number in heights:
                    with code.loop("r", 0, number) as r:
                        fetch = partial(passes.fetch, code, run, done + r)
                        multiply(rows, begin + r * rows, fetch)
                    begin, done = begin + rows * number, done + number
            else:
                self._open_count(count, multiply)

    def _open_count(self, count: Index, multiply: Callable[[int, Index, Fetch], None]) -> None:
        """Write register tiles for a number of tiles that depends on the shape.

        The last one may have rows beyond this number: their products are not read. Passes of
        different lengths prefetch nothing: they were slower when they did.
        """
        code, rows = self.code, self.spec.rows
        whole = code.bind("whole", tirx.truncdiv(count, rows))
        with code.loop("r", 0, whole) as r:
            multiply(rows, r * rows, fetch_nothing)
        left = code.bind("left", count - whole * rows)
        sizes = sorted({ceil(rows * part / _TAILS) for part in range(1, _TAILS + 1)})
        for before, size in pairwise([0, *sizes]):
            with code.branch(tirx.all(left > before, left <= size)):
                multiply(size, whole * rows, fetch_nothing)

    def _register_tile(
        self, data: Index, weights: Index, rows: int, target: Index, row: Index, fetch: Fetch
    ) -> None:
        """Write the sum over the input channels, for some tiles."""
        code, lanes, vectors = self.code, self.lanes, self.spec.vectors
        channels = self.spec.tiles.channels
        data = code.bind("source", data)
        accumulators = code.accumulators(rows * vectors, lanes)
        for acc in accumulators:
            code.store(acc, 0, constant(0.0, lanes), lanes)
        unroll = step_of(channels, _UNROLLED // (rows * vectors), self.words)

        def read(row: int, ci: Index, words: int) -> Any:
            return code.bind("x", load(self.data, data + row * channels + ci, words))

        def multiply(first: Index, count: int) -> None:
            for ci, word_of in consecutive(range(rows), first, count, self.words, read):
                self._multiply_add(word_of, weights + ci * self.width, rows, accumulators)
            fetch(weights + first * self.width, count * self.width)

        code.steps("ci", channels, unroll, multiply)
        for p in range(rows):
            for v in range(vectors):
                at = target + (row + p) * self.width + v * lanes
                acc = accumulators[p * vectors + v]
                code.store(self.products, at, load(acc, 0, lanes), lanes)

    def _multiply_add(
        self, word_of: WordOf, weights: Index, rows: int, accumulators: list[Any]
    ) -> None:
        code, lanes, vectors = self.code, self.lanes, self.spec.vectors
        weight = self.buffers[self.spec.weight]
        line = [code.bind("w", load(weight, weights + v * lanes, lanes)) for v in range(vectors)]
        for p in range(rows):
            value = code.bind("x", spread([word_of(p)], lanes))
            for v in range(vectors):
                acc = accumulators[p * vectors + v]
                code.store(acc, 0, load(acc, 0, lanes) + value * line[v], lanes)

    def _outputs(self, t: Index, number: Index, block: Index) -> None:
        """Write the outputs of a tile, part by part of the channels."""
        tiles, code = self.spec.tiles, self.code
        height, width = tiles.extent
        image, row, column = place_of(code, tiles, number)
        grid = (image, code.bind("y", row * height), code.bind("x", column * width))
        for part in self.parts:
            local = block - part.first_block if len(self.parts) > 1 or part.blocks > 1 else 0
            inside = None
            if len(self.parts) > 1:
                inside = tirx.all(block >= part.first_block, block < part.first_block + part.blocks)
            with code.branch(inside):
                self._part(t, grid, part, local)

    def _part(
        self, t: Index, grid: tuple[Index, Index, Index], part: ChannelPart, local: Index
    ) -> None:
        code = self.code

        def channels(begin: Index, count: int) -> None:
            begin = code.bind("begin", begin)

            def vector(at: Index, width: int) -> None:
                source = code.bind("source", t * self.width + at)
                self._vector(source, grid, part, code.bind("channel", begin + at), width)

            code.vectors(count, self.lanes, vector)

        code.blocks(local, part.count, self.width, channels)

    def _vector(
        self,
        source: Index,
        grid: tuple[Index, Index, Index],
        part: ChannelPart,
        channel: Index,
        lanes: int,
    ) -> None:
        """Write the outputs of a tile for a vector of channels."""
        code, tiles, table = self.code, self.spec.tiles, self.table
        halfway = table.memory
        by_row, by_column = tiles.filterings
        size = by_column.size
        with code.loop("j", 0, size) as j:
            at = [source + (i * size + j) * self.pitch for i in range(by_row.size)]
            values = [code.keep(load(self.products, a, lanes), lanes) for a in at]
            for i, value in enumerate(paired_columns(code, by_row.inverse, values, lanes, table)):
                code.store(halfway, (i * size + j) * lanes, value, lanes)
        image, y, x = grid
        (height, width), (rows, columns) = tiles.window.output, tiles.extent
        inverse = by_column.inverse
        with code.loop("i", 0, rows) as i:
            row = code.bind("output", y + i)
            with code.branch(None if is_multiple(height, rows) else row < code.extent(height)):
                at = [(i * size + j) * lanes for j in range(size)]
                values = [code.keep(load(halfway, a, lanes), lanes) for a in at]
                values = list(paired_columns(code, inverse, values, lanes, table))

                def stores(j: Index, value: Value, row: Index = row) -> list[Store]:
                    return self._stores((image, row, x + j), part, channel, value, lanes)

                certain = columns
                if not is_open(width) and width % columns:
                    certain = width % columns
                is_cut = is_open(width) and not is_multiple(width, columns)
                end = code.extent(width)
                with code.branch(x + columns <= end if is_cut else None):
                    every = [stores(j, value) for j, value in enumerate(values[:certain])]
                    store_vectors(code, self.buffers, list(chain(*every)))
                for j in range(certain, columns):
                    with code.branch(x + j < end):
                        store_vectors(code, self.buffers, stores(j, values[j]))
                if is_cut:
                    # One copy of the code for all columns.
                    with code.branch(x + columns > end):
                        for place, value in zip(at, values, strict=False):
                            code.store(halfway, place, value, lanes)
                        with code.loop("j", 0, end - x) as j:
                            value = load(halfway, (i * size + j) * lanes, lanes)
                            store_vectors(code, self.buffers, stores(j, value))

    def _stores(
        self,
        grid: tuple[Index, Index, Index],
        part: ChannelPart,
        channel: Index,
        value: Value,
        lanes: int,
    ) -> list[Store]:
        return [
            (statement, grid, channel + (part.begin - statement.begin), value, lanes)
            for statement in self.spec.statements
            if statement.begin <= part.begin < statement.begin + statement.count
        ]


def tiles_of(code: TileCode, tiles: WinogradTiles, first: Index) -> Index:
    """Return how many tiles there are in the block that begins with number ``first``."""
    count = code.extent(tiles.tiles)
    if is_open(tiles.blocks) or tiles.blocks > 1:
        return tirx.min(tiles.block, count - first)
    return count


def place_of(code: TileCode, tiles: WinogradTiles, number: Index) -> tuple[Index, Index, Index]:
    """Return the image, the row and the column of a tile."""
    rows, columns = tiles.grid
    line, column = divide(code, "line", number, columns, tiles.batch * rows)
    image, row = divide(code, "image", line, rows, tiles.batch)
    return image, row, column


def register_tiles(count: int, rows: int) -> list[tuple[int, int]]:
    """Divide rows into register tiles of nearly equal height; return (height, how many) pairs."""
    number = -(-count // rows)
    low, more = divmod(count, number)
    heights = [(low + 1, more), (low, number - more)]
    return [(height, times) for height, times in heights if times]
