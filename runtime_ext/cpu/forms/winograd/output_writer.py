"""The second kernel of Winograd's filtering: products, and their transform to outputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from tvm import tirx

from runtime_ext.cpu.forms.winograd.linear_map import CoefficientTable, Value, paired_columns
from runtime_ext.cpu.forms.winograd.spec import WinogradOutput
from runtime_ext.cpu.kernels.passes import Fetch, Passes
from runtime_ext.cpu.kernels.tile_code import TileCode, regions
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, constant, load
from runtime_ext.kernels.cut import ChannelPart, channel_parts, largest_divisor
from runtime_ext.kernels.statements import Store, divide, store_vectors

#: Most multiply-adds of a step of the innermost loop: enough to hide the loop's overhead.
_UNROLLED = 32
#: Spare elements between the products of two positions, so that they do not share cache sets.
_APART = 16
#: The time to read a value that another core has just written, as a multiple of that of a weight.
_FAR = 4


def winograd_output(spec: WinogradOutput, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of the products and outputs, and its number of tiles.

    A tile is a block of output channels of a block of the convolution's tiles: its products stay
    in the caches until they are transformed.
    """
    width = spec.vectors * isa.lanes
    parts = channel_parts(spec.parts, width)
    blocks = sum(part.blocks for part in parts)
    code = TileCode(spec.buffers, isa)
    with code.tiles(blocks * spec.tiles.blocks) as tile:
        block, group = code.block_and_group(
            tile, blocks, spec.tiles.blocks, _regions(spec, blocks, width)
        )
        writer = _Writer(spec, parts, isa, code, _Place(group, block))
        writer.tile()
    return code.kernel()


def _regions(spec: WinogradOutput, blocks: int, width: int) -> int:
    """Return the number of regions of the convolution's tiles, chosen to read least."""
    tiles = spec.tiles
    data, weights = tiles.blocks * tiles.block, blocks * width
    if data + tiles.blocks * weights <= blocks * data + weights:
        return tiles.blocks
    return regions(_FAR * tiles.tiles / weights, tiles.blocks)


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a kernel's tile: the block of the convolution's tiles, and of channels."""

    group: Index
    block: Index


class _Writer:
    def __init__(
        self,
        spec: WinogradOutput,
        parts: tuple[ChannelPart, ...],
        isa: Isa,
        code: TileCode,
        place: _Place,
    ) -> None:
        self.spec, self.parts, self.code, self.place = spec, parts, code, place
        self.buffers, self.lanes = code.buffers, isa.lanes
        self.width = spec.vectors * isa.lanes
        #: Elements from the products of one position to those of the next.
        self.pitch = spec.tiles.block * self.width + _APART
        self.products = code.on_stack(spec.tiles.positions * self.pitch)
        # Memory before the coefficients holds a tile after the transform of its columns.
        by_row, by_column = spec.tiles.filterings
        halfway = by_row.outputs * by_column.size * isa.lanes
        inverses = (by_row.inverse, by_column.inverse)
        self.table = CoefficientTable(code, inverses, halfway, isa.lanes)

    def tile(self) -> None:
        """Write all products, then all outputs."""
        tiles, code, group = self.spec.tiles, self.code, self.place.group
        code.blocks(group, tiles.tiles, tiles.block, lambda _, count: self._multiply(count))
        first = code.bind("first", group * tiles.block)
        count = tirx.min(tiles.block, tiles.tiles - first) if tiles.blocks > 1 else tiles.tiles
        with code.loop("t", 0, count) as t:
            number = code.bind("number", first + t)
            self._outputs(t, number)

    def _multiply(self, count: int) -> None:
        """Write the products of all positions of ``count`` tiles."""
        tiles, code = self.spec.tiles, self.code
        with code.loop("position", 0, tiles.positions) as position:
            data = (self.place.group * tiles.positions + position) * (tiles.block * tiles.channels)
            data = code.bind("data", data)
            run = code.bind("run", self.place.block * tiles.positions + position)
            weights = code.bind("weights", run * (tiles.channels * self.width))
            target = code.bind("target", position * self.pitch)
            heights = register_tiles(count, self.spec.rows)
            passes = Passes(
                self.buffers[self.spec.weight],
                tiles.channels * self.width,
                sum(number for _, number in heights),
            )
            begin = done = 0
            for rows, number in heights:
                with code.loop("r", 0, number) as r:
                    row = code.bind("row", begin + r * rows)
                    fetch = partial(passes.fetch, code, run, done + r)
                    source = data + row * tiles.channels
                    self._register_tile(source, weights, rows, target, row, fetch)
                begin, done = begin + rows * number, done + number

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
        unroll = largest_divisor(channels, max(1, _UNROLLED // (rows * vectors)))
        with code.loop("ci", 0, channels // unroll) as step:
            for u in range(unroll):
                ci = step * unroll + u
                self._multiply_add(data + ci, weights + ci * self.width, rows, accumulators)
            fetch(weights + step * (unroll * self.width), unroll * self.width)
        for p in range(rows):
            for v in range(vectors):
                at = target + (row + p) * self.width + v * lanes
                acc = accumulators[p * vectors + v]
                code.store(self.products, at, load(acc, 0, lanes), lanes)

    def _multiply_add(
        self, data: Index, weights: Index, rows: int, accumulators: list[Any]
    ) -> None:
        code, lanes, vectors = self.code, self.lanes, self.spec.vectors
        weight = self.buffers[self.spec.weight]
        line = [code.bind("w", load(weight, weights + v * lanes, lanes)) for v in range(vectors)]
        for p in range(rows):
            at = data + p * self.spec.tiles.channels
            value = code.bind("x", load(self.buffers[self.spec.data], at, lanes, 0))
            for v in range(vectors):
                acc = accumulators[p * vectors + v]
                code.store(acc, 0, load(acc, 0, lanes) + value * line[v], lanes)

    def _outputs(self, t: Index, number: Index) -> None:
        """Write the outputs of a tile, part by part of the channels."""
        tiles, code, block = self.spec.tiles, self.code, self.place.block
        (rows, columns), (height, width) = tiles.grid, tiles.extent
        line, column = divide(code, "line", number, columns, tiles.batch * rows)
        image, row = divide(code, "image", line, rows, tiles.batch)
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
            with code.branch(row < height if height % rows else None):
                at = [(i * size + j) * lanes for j in range(size)]
                values = [code.keep(load(halfway, a, lanes), lanes) for a in at]
                values = list(paired_columns(code, inverse, values, lanes, table))
                always = columns if width % columns == 0 else width % columns
                stores = [
                    self._stores((image, row, x + j), part, channel, value, lanes)
                    for j, value in enumerate(values)
                ]
                store_vectors(code, self.buffers, list(chain(*stores[:always])))
                for j in range(always, len(values)):
                    with code.branch(x + j < width):
                        store_vectors(code, self.buffers, stores[j])

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


def register_tiles(count: int, rows: int) -> list[tuple[int, int]]:
    """Divide rows into register tiles of nearly equal height; return (height, how many) pairs."""
    number = -(-count // rows)
    low, more = divmod(count, number)
    heights = [(low + 1, more), (low, number - more)]
    return [(height, times) for height, times in heights if times]
