"""Convolutions and matrix products: a register tile of pixels by channels, inputs broadcast."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, prod
from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.blocking import UNROLLED
from runtime_ext.cpu.kernels.passes import Fetch, Passes
from runtime_ext.cpu.kernels.rows import TileRun, column, kernel_rows, row_runs
from runtime_ext.cpu.kernels.tile_code import TileCode, regions
from runtime_ext.cpu.kernels.words import WordOf, consecutive, spread, step_of
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import (
    Index,
    constant,
    equal,
    integer,
    is_number,
    load,
    low_lanes,
    widths,
)
from runtime_ext.kernels.cut import USUAL_TILES, ChannelPart, channel_parts
from runtime_ext.kernels.spec import Contraction
from runtime_ext.kernels.statements import Store, activate, divide, store_vectors

#: Bytes of weights that stay in a core's second-level cache while pixels pass.
_RESIDENT_WEIGHTS = 320 * 1024
#: From this many pixels on, a core multiplies a weight for twice as long as memory takes to bring
#: the next.
BUSY_PIXELS = 96
#: Most input channels of a loop step, if each has more than a few multiply-adds.
_MOST_UNROLLED = 8
#: Rows of a filter with at least this many columns become loops, if possible.
_LONG_ROW = 32
#: Up to this many accumulators leave registers for the weights of two channels.
_ROOM = 24


@dataclass(frozen=True, slots=True)
class TilePlan:
    """The mapping of tile numbers to the grid; see :meth:`TileCode.block_and_group`."""

    runs: tuple[TileRun, ...]
    parts: tuple[ChannelPart, ...]
    blocks: int
    rows: int
    strips: int
    strip: int
    borderless: bool
    blocks_outer: bool
    regions: int

    @property
    def tiles(self) -> int:
        """Number of tiles."""
        return self.blocks * self.rows * self.strips


def contraction(spec: Contraction, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of a contraction and its number of tiles."""
    plan = plan_tiles(spec, isa)
    code = TileCode(spec.buffers, isa)
    ContractionWriter(spec, plan, isa, code).all_tiles()
    return code.kernel()


def plan_tiles(spec: Contraction, isa: Isa) -> TilePlan:
    """Return the tiles of a contraction, by its blocking or by rules of thumb."""
    parts, blocks, outer = channel_blocks(spec, isa)
    runs = row_runs(spec.window, spec.blocking.pixels)
    rows = spec.batch * spec.window.output[0]
    borderless = all(len(run.valid) == run.pixels * spec.window.kernel[1] for run in runs)
    # Without borders only the last run differs, and it belongs to the last strip.
    cut = runs[0].tiles if borderless else sum(run.tiles for run in runs)
    strips, strip = 1, cut
    few = rows * blocks < spec.blocking.tiles // 2
    if few and (borderless or spec.blocking.tiles > USUAL_TILES):
        strip = max(1, cut * rows * blocks // spec.blocking.tiles)
        strips = ceil(cut / strip)
    groups = rows * strips
    many = regions(rows * spec.window.output[1] / BUSY_PIXELS, groups) if outer else groups
    return TilePlan(runs, parts, blocks, rows, strips, strip, borderless, outer, many)


def channel_blocks(spec: Contraction, isa: Isa) -> tuple[tuple[ChannelPart, ...], int, bool]:
    """Return the parts of a contraction's channels, their blocks, and in which order tiles are.

    True says that a block is applied to the data of a region before the next block is: the default
    for weights that no cache holds.
    """
    width = spec.blocking.vectors * isa.lanes
    parts = channel_parts(spec.parts, width)
    outer = spec.blocking.blocks_outer
    if outer is None:
        outer = bytes_of_weights(spec, width) > _RESIDENT_WEIGHTS
    return parts, sum(part.blocks for part in parts), outer


def bytes_of_weights(spec: Contraction, width: int) -> int:
    """Return the bytes of weights that are packed into blocks of ``width`` channels."""
    rows, columns = spec.window.kernel
    blocks = sum(part.blocks for part in channel_parts(spec.parts, width))
    return blocks * width * spec.channels * rows * columns * 4


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a tile, as variables of the code."""

    block: Index
    image: Index
    row: Index


@dataclass(frozen=True, slots=True)
class Channels:
    """Output channels of a block.

    ``first`` is counted from the part, or, for groups, from the first part.
    """

    part: ChannelPart
    first: Index
    count: int


class ContractionWriter:
    """A writer of the code of a contraction's tiles.

    ``stored_shift`` is added to the offsets at which results are stored.
    """

    #: The elements of a word of the data.
    elements = 1

    def __init__(
        self, spec: Contraction, plan: TilePlan, isa: Isa, code: TileCode, stored_shift: Index = 0
    ) -> None:
        self.spec, self.plan, self.isa, self.code = spec, plan, isa, code
        self._shift = stored_shift
        self.buffers, self.tiles = code.buffers, plan.tiles
        self._tiles_of_row = -(-spec.window.output[1] // spec.blocking.pixels)
        words = self._words() * prod(spec.window.kernel) * self._width()
        self.passes = Passes(self.buffers[spec.weight], words, self._number_of_passes())

    def _number_of_passes(self) -> int:
        """Return the passes over a block's weights that prefetch the next block's, or 0.

        A pass is a register tile. Nothing is prefetched for a single pass, which reads in order,
        or for few weights, which stay in a cache.
        """
        passes = self.plan.rows * self._tiles_of_row // self.plan.regions
        return passes if passes > 1 and self.plan.blocks_outer else 0

    def _words(self) -> int:
        """Return an output channel's weights at one place of the kernel, in words of 32 bits."""
        return self.spec.channels

    def _width(self) -> int:
        """Return the output channels of a block."""
        return self.spec.blocking.vectors * self.isa.lanes

    def all_tiles(self) -> None:
        """Write the loop over the tiles of the kernel's range."""
        with self.code.tiles(self.tiles) as tile:
            self.tile(tile)

    def tile(self, tile: Any) -> None:
        """Write one block of channels for a row of pixels, or for a strip of it."""
        plan, code = self.plan, self.code
        groups = plan.rows * plan.strips
        block, tile_of_block = code.block_and_group(tile, plan.blocks, groups, plan.regions)
        line, strip = divide(code, "line", tile_of_block, plan.strips, plan.rows)
        rows = self.spec.window.output[0]
        image, row = divide(code, "image", line, rows, self.spec.batch)
        place = Place(block, image, row)
        begin = 0
        for run in plan.runs:
            if plan.strips == 1:
                self.run(place, run)
            elif not plan.borderless:
                self._shared(place, run, strip * plan.strip - begin)
            elif begin == 0:
                first = code.bind("first", strip * plan.strip)
                with code.loop("x", first, tirx.min(first + plan.strip, run.tiles)) as x:
                    self._pixels(place, code.bind("x0", x * run.pixels), run)
            else:
                with code.branch(equal(strip, plan.strips - 1)):
                    self.run(place, run)
            begin += run.tiles

    def _shared(self, place: Place, run: TileRun, first: Index) -> None:
        """Write a strip's part of a run, from register tile ``first``, counted from the run."""
        code, last = self.code, first + self.plan.strip
        begin = code.bind("begin", tirx.min(tirx.max(first, 0), run.tiles))
        end = code.bind("end", tirx.max(begin, tirx.min(last, run.tiles)))
        with code.loop("x", begin, end) as x:
            self._pixels(place, code.bind("x0", x * run.pixels + run.begin), run)

    def run(self, place: Place, run: TileRun) -> None:
        """Write the register tiles of a row that need the same code."""
        if run.tiles == 1:
            self._pixels(place, run.begin, run)
            return
        with self.code.loop("x", 0, run.tiles) as x:
            self._pixels(place, self.code.bind("x0", x * run.pixels + run.begin), run)

    def _pixels(self, place: Place, x0: Index, run: TileRun) -> None:
        """Write a register tile: accumulate over the window and the input channels, then store."""

        def accumulate(accumulators: list[Any]) -> None:
            begin, end = kernel_rows(self.code, self.spec.window, place.row)
            if (begin, end) == (0, 1):
                self._kernel_row(place, x0, run, 0, accumulators)
                return
            with self.code.loop("ky", begin, end) as ky:
                self._kernel_row(place, x0, run, ky, accumulators)

        self._store(place, x0, run, self.accumulated(place.block, run.pixels, accumulate))

    def accumulated(
        self, block: Index, pixels: int, accumulate: Callable[[list[Any]], None]
    ) -> list[Any]:
        """Return the sums of a register tile in float32; ``accumulate`` adds to the first ones."""
        sums = self.first_sums(block, pixels)
        accumulate(sums)
        return self.in_floats(sums, pixels)

    def first_sums(self, _block: Index, pixels: int) -> list[Any]:
        """Return the buffers of a register tile's sums, with what these begin with: zeros."""
        code, lanes = self.code, self.isa.lanes
        sums = code.accumulators(pixels * self.spec.blocking.vectors, lanes)
        for total in sums:
            code.store(total, 0, constant(0.0, lanes), lanes)
        return sums

    def in_floats(self, sums: list[Any], _pixels: int) -> list[Any]:
        """Return the buffers of the sums of pixels in float32, which they have here."""
        return sums

    def _kernel_row(
        self, place: Place, x0: Index, run: TileRun, ky: Index, accumulators: list[Any]
    ) -> None:
        spec, code = self.spec, self.code
        window, sw = spec.window, spec.data.strides[2]
        origin = self._origin(place, ky)
        fetch = self._fetch(place, x0)
        row = self._words_of_row(run)
        for kx in range(1 if row else window.kernel[1]):
            pixels = [p for p in range(run.pixels) if (p, kx) in run.valid]
            if not pixels:
                continue
            source = code.bind("source", origin + column(window, x0, kx) * sw)
            step = (place.block * window.kernel[0] + ky) * window.kernel[1] + kx
            weights = code.bind("weights", step * (self._words() * self._width()))
            words = row or spec.channels
            self._input_channels(words, pixels, source, weights, accumulators, fetch)

    def _origin(self, place: Place, ky: Index) -> Index:
        """Return the element of the input's column 0 that a kernel row reads."""
        spec, window = self.spec, self.spec.window
        y = place.row * window.strides[0] + ky * window.dilations[0] - window.pads[0]
        sn, sh, _, sc = spec.data.strides
        origin = spec.data.offset + place.image * sn + y * sh
        if spec.groups > 1:
            blocks = self.plan.blocks // spec.groups
            origin = origin + tirx.floordiv(place.block, blocks) * (spec.channels * sc)
        return self.code.bind("origin", origin)

    def _words_of_row(self, run: TileRun) -> int:
        """Return the length of a filter row if it is contiguous in the data and one loop, else 0.

        Long ones are: unrolled by column, filters of hundreds of columns (for spectra) would be
        too much code. Short ones are if they fill vectors of words and a column does not.
        """
        spec, window = self.spec, self.spec.window
        _, _, sw, sc = spec.data.strides
        is_one = window.kernel[1] >= _LONG_ROW or self._short_row() > 0
        if not is_one or spec.groups > 1 or window.dilations[1] != 1:
            return 0
        is_one_run = is_number(sw, spec.channels * self.elements)
        is_one_run = is_one_run and (spec.channels == 1 or is_number(sc, self.elements))
        if not is_one_run or len(run.valid) < run.pixels * window.kernel[1]:
            return 0
        return window.kernel[1] * spec.channels

    def _short_row(self) -> int:
        """Return the words of a filter row that is unrolled as a whole; 0 if columns are."""
        words = self.spec.channels * self.spec.window.kernel[1]
        fits = self.spec.channels < self.isa.lanes <= words < _LONG_ROW
        return words if self.isa.by_element and fits else 0

    def _fetch(self, place: Place, x0: Index) -> Fetch:
        """Return the function by which each step of a register tile prefetches weights."""
        line = place.image * self.spec.window.output[0] + place.row
        nth = line * self._tiles_of_row + tirx.floordiv(integer(x0), self.spec.blocking.pixels)
        return partial(self.passes.fetch, self.code, place.block, nth)

    def _input_channels(
        self,
        words: int,
        pixels: list[int],
        source: Index,
        weights: Index,
        accumulators: list[Any],
        fetch: Fetch,
    ) -> None:
        """Write the loop over all input channels at one place of the kernel."""

        def multiply(first: Index, count: int) -> None:
            for ci, word_of in self.words_of(pixels, source, first, count):
                self._multiply_add(ci, pixels, word_of, weights, accumulators)

        unroll = self._unroll(words, len(accumulators))
        self.unrolled(words, unroll, weights, multiply, fetch)

    def unrolled(
        self,
        words: int,
        unroll: int,
        weights: Index,
        multiply: Callable[[Index, int], None],
        fetch: Fetch,
    ) -> None:
        """Write a loop over words of weights, ``unroll`` of them a step, and the rest after it.

        ``multiply`` is given the first of consecutive words, and their number.
        """
        steps, size = words // unroll if unroll else 0, unroll * self._width()
        if steps == 1:
            multiply(0, unroll)
        elif steps:
            with self.code.loop("ci", 0, steps) as step:
                multiply(step * unroll, unroll)
                fetch(weights + step * size, size)
        if rest := words - steps * unroll:
            multiply(steps * unroll, rest)

    def words_of(
        self, pixels: list[int], source: Any, first: Index, count: int
    ) -> Iterator[tuple[Index, WordOf]]:
        """Yield the numbers of consecutive words of pixels, and functions that return a pixel's."""
        # With one channel a step goes to the next column, if there is one.
        step = self.spec.data.strides[2 if self.spec.channels == 1 else 3]

        def read(pixel: int, word: Index, words: int) -> Any:
            return self._read(self._of_pixel(source, pixel) + word * step, words)

        together = self._words_of_vector() if is_number(step, self.elements) else 1
        return consecutive(pixels, first, count, together, read)

    def _words_of_vector(self) -> int:
        """Return the words that are loaded together where they follow one another."""
        return self.isa.words

    def _read(self, at: Index, words: int) -> Any:
        """Return consecutive words of the data, after the prologue."""
        spec = self.spec
        # Activate before broadcasting: if all lanes compare the same, LLVM makes a branch of it.
        value = load(self.buffers[spec.data.buffer], at, words)
        return self.code.bind("x", activate(self.code, spec.prologue, value, words))

    def _multiply_add(
        self,
        ci: Index,
        pixels: list[int],
        word_of: WordOf,
        weights: Index,
        accumulators: list[Any],
    ) -> None:
        """Write one input channel: each vector of its weights times each pixel's value."""
        spec, code, lanes = self.spec, self.code, self.isa.lanes
        vectors = spec.blocking.vectors
        weight = self.buffers[spec.weight]
        row = [
            code.bind("w", load(weight, weights + ci * (vectors * lanes) + v * lanes, lanes))
            for v in range(vectors)
        ]
        self.add_products(pixels, word_of, row, accumulators)

    def add_products(
        self,
        pixels: list[int],
        word_of: WordOf,
        row: Sequence[Any],
        accumulators: list[Any],
    ) -> None:
        """Write products of a row of weight vectors with each pixel's broadcast value."""
        code, lanes = self.code, self.isa.lanes
        for p in pixels:
            value = code.bind("x", spread([word_of(p)], lanes))
            for acc, weights in zip(accumulators[p * len(row) :], row, strict=False):
                code.store(acc, 0, load(acc, 0, lanes) + value * weights, lanes)

    def _of_pixel(self, source: Any, pixel: int) -> Index:
        """Return the first element of a pixel of a register tile; ``source`` is the first's."""
        return source + pixel * self.spec.window.strides[1] * self.spec.data.strides[2]

    def _unroll(self, words: int, accumulators: int) -> int:
        """Return the words of weights in a loop step: some 100 multiply-adds are faster than 30.

        If a step has two words, LLVM loads all weights at once; with many accumulators, too few
        registers are left and a spilling kernel takes twice as long.
        """
        if words <= UNROLLED or words == self._short_row():
            return words
        if self.spec.blocking.unroll is not None:
            return self.spec.blocking.unroll
        limit = max(1, 32 // accumulators, min(_MOST_UNROLLED, 128 // accumulators))
        unroll = step_of(words, limit, self._words_of_vector())
        return 1 if unroll == 2 and accumulators > _ROOM else unroll

    def _store(self, place: Place, x0: Index, run: TileRun, accumulators: list[Any]) -> None:
        """Apply the epilogue to the accumulators, part by part; the last block may be shorter."""
        vectors, lanes = self.spec.blocking.vectors, self.isa.lanes

        def write(channels: Channels) -> None:
            pixels = [(place.image, place.row, x0 + p) for p in range(run.pixels)]
            sums = [load(accumulator, 0, lanes) for accumulator in accumulators]
            self.store_pixels(
                pixels, [sums[p * vectors :][:vectors] for p in range(run.pixels)], channels
            )

        self.channels(place.block, write)

    def channels(self, block: Index, write: Callable[[Channels], None]) -> None:
        """Call ``write`` for the output channels of a block, for each part that it may be in."""
        width = self._width()
        blocks = self.plan.blocks
        if self.spec.groups > 1:
            blocks //= self.spec.groups
            group, local = divide(self.code, "group", block, blocks, self.spec.groups)
            part = self.plan.parts[0]
            self._channels_of_part(part, local, group * part.count + local * width, write)
            return
        for part in self.plan.parts:
            local = block - part.first_block if blocks > 1 else 0
            inside = None
            if len(self.plan.parts) > 1:
                inside = tirx.all(block >= part.first_block, block < part.first_block + part.blocks)
            with self.code.branch(inside):
                self._channels_of_part(part, local, local * width, write)

    def _channels_of_part(
        self, part: ChannelPart, local: Index, first: Index, write: Callable[[Channels], None]
    ) -> None:
        width = self._width()
        first = self.code.bind("channel", first)
        self.code.blocks(
            local, part.count, width, lambda _, count: write(Channels(part, first, count))
        )

    def store_pixels(
        self,
        pixels: Sequence[tuple[Index, Index, Index]],
        sums: Sequence[Sequence[Any]],
        channels: Channels,
    ) -> None:
        """Apply the statements to the sums: for each pixel, one vector for each of the block's."""
        lanes, part = self.isa.lanes, channels.part
        stores: list[Store] = []
        for grid, of_pixel in zip(pixels, sums, strict=True):
            for v, count in enumerate(widths(channels.count, lanes)):
                acc = low_lanes(of_pixel[v], count, lanes)
                for statement in self.spec.statements:
                    if statement.begin <= part.begin < statement.begin + statement.count:
                        inner = channels.first + (part.begin - statement.begin + v * lanes)
                        stores.append((statement, grid, inner, acc, count))
        store_vectors(self.code, self.buffers, stores, self._shift)
