"""Contractions by AMX: matrices of pixels by channels times channels by output channels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

from tvm import tirx

from runtime_ext.cpu.forms.packs import matrix_registers
from runtime_ext.cpu.forms.packs.matrix_registers import Register
from runtime_ext.cpu.forms.packs.spec import COLUMNS, MatrixContraction, depth, rows_of
from runtime_ext.cpu.kernels.contraction import (
    Channels,
    ContractionWriter,
    TilePlan,
    bytes_of_weights,
)
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, element, integer, load
from runtime_ext.kernels.cut import Blocking, channel_parts
from runtime_ext.kernels.spec import Contraction
from runtime_ext.kernels.statements import divide, vectors_together

#: Bytes of weights that stay in a core's second-level cache while pixels pass.
_RESIDENT_WEIGHTS = 1024 * 1024
#: From this many bytes on, more than a first-level cache has, weights are prefetched.
_FETCHED_WEIGHTS = 64 * 1024
#: Cycles between two products that add to the same sums, and cycles to load a whole matrix.
_LATENCY, _LOAD = 52, 8
#: The first registers hold sums; those of data and of weights begin here.
_DATA, _WEIGHTS = 4, 6
_BYTES = 4


@dataclass(frozen=True)
class MatrixCutter:
    """A cutter of contractions into matrices; see :class:`runtime_ext.kernels.cutter.Cutter`."""

    def blocking(self, spec: Contraction) -> Blocking:
        """Return the matrices whose products have the fewest estimated cycles."""
        rows, data = rows_of(spec.window), _matrices_of_data(spec)

        def cycles(vectors: int) -> int:
            blocks = sum(ceil(part / (vectors * COLUMNS)) for part in spec.parts)
            loads = (vectors + data) * _LOAD
            return blocks * max(data * vectors * rows, loads, _LATENCY)

        return Blocking(rows, min((2, 1), key=cycles))

    def width(self, blocking: Blocking) -> int:
        """Return the output channels of a block of packed weights."""
        return blocking.vectors * COLUMNS


def matrix_contraction(spec: MatrixContraction, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of a contraction by products of matrices, and its number of tiles."""
    contraction = spec.contraction
    numbers = ("uint16", "uint16") if spec.starts is None else ("uint8", "int8")
    dtypes = ["float32"] * len(spec.buffers)
    dtypes[contraction.data.buffer], dtypes[contraction.weight] = numbers
    if spec.starts is not None:
        dtypes[spec.starts] = "int32"
    code = TileCode(spec.buffers, isa, dtypes)
    writer = _Writer(spec, isa, code)
    writer.begin()
    with code.tiles(writer.plan.tiles) as tile:
        writer.tile(tile)
    writer.end()
    return code.kernel()


def _matrices_of_data(spec: Contraction) -> int:
    """Return how many matrices of data share loaded weights: at most two."""
    return min(2, _matrices(spec))


def _matrices(spec: Contraction) -> int:
    """Return the number of matrices of pixels of all rows."""
    rows, columns = spec.window.output
    return spec.batch * rows * ceil(columns / rows_of(spec.window))


def _plan(spec: Contraction) -> TilePlan:
    """Map tile numbers to blocks of channels, and to ranges of groups of matrices of data."""
    width = spec.blocking.vectors * COLUMNS
    parts = channel_parts(spec.parts, width)
    blocks = sum(part.blocks for part in parts)
    groups = ceil(_matrices(spec) / _matrices_of_data(spec))
    strip = ceil(groups / min(groups, ceil(spec.blocking.tiles / blocks)))
    outer = bytes_of_weights(spec, width) > _RESIDENT_WEIGHTS
    strips = ceil(groups / strip)
    # Use one region: products are so fast that reading all weights for each region would take
    # longer.
    return TilePlan((), parts, blocks, 1, strips, strip, True, outer, 1 if outer else strips)


class _Writer(ContractionWriter):
    """A writer of products of matrices; strips are of groups of matrices of data."""

    def __init__(self, spec: MatrixContraction, isa: Isa, code: TileCode) -> None:
        super().__init__(spec.contraction, _plan(spec.contraction), isa, code)
        self._of = spec
        self._rows = spec.contraction.blocking.pixels
        self._depth = depth(spec.run)
        self._matrices = _matrices(spec.contraction)
        self._data = _matrices_of_data(spec.contraction)
        vectors = spec.contraction.blocking.vectors
        self._sums = code.on_stack(self._data * vectors * self._rows * COLUMNS)
        registers = {
            **{i: Register(self._rows, COLUMNS) for i in range(self._data * vectors)},
            **{_DATA + i: Register(self._rows, self._depth) for i in range(self._data)},
            **{_WEIGHTS + v: Register(self._depth, COLUMNS) for v in range(vectors)},
        }
        numbers = "bfloat16" if spec.starts is None else "int8"
        code.import_llvm(matrix_registers.functions(registers, isa.matrices[numbers]))

    def _number_of_passes(self) -> int:
        # A pass is a group of matrices of data in a tile.
        weights = bytes_of_weights(self.spec, self._width())
        return self.plan.strip if weights >= _FETCHED_WEIGHTS else 0

    def begin(self) -> None:
        """Write the configuration of AMX before the first tile."""
        self._call("configure")

    def end(self) -> None:
        """Write the release of AMX's registers after the last tile."""
        self._call("release")

    def tile(self, tile: Any) -> None:
        """Write one block of channels for some groups of matrices of data."""
        plan, code = self.plan, self.code
        block, strip = code.block_and_group(tile, plan.blocks, plan.strips, plan.regions)
        groups = ceil(self._matrices / self._data)
        if plan.strips == 1:
            begin, end = 0, groups
        else:
            begin = code.bind("begin_group", strip * plan.strip)
            end = tirx.min(begin + plan.strip, groups)
        with code.loop("group", begin, end) as group:
            self._group(block, group, group - begin)

    def _group(self, block: Index, group: Index, nth: Index) -> None:
        """Write a group of matrices of data times a block's weights, the ``nth`` of a tile."""
        spec, code, vectors = self.spec, self.code, self.spec.blocking.vectors
        places = [self._place(group * self._data + i) for i in range(self._data)]
        sn, sh, sw, _ = spec.data.strides
        strides = spec.window.strides
        origins = [
            code.bind(
                "origin",
                spec.data.offset + image * sn + row * (strides[0] * sh) + x0 * (strides[1] * sw),
            )
            for (image, row, x0), _ in places
        ]
        starts = None if self._of.starts is None else self.buffers[self._of.starts]
        for i in range(self._data * vectors):
            if starts is None:
                self._call(f"clear_{i}")
            else:
                # No stride between rows: all pixels begin with the same sums.
                self._call(f"load_{i}", starts, (block * vectors + i % vectors) * COLUMNS)
        self._multiply(block, origins, nth)
        size = self._rows * COLUMNS
        for i in range(self._data * vectors):
            self._call(f"store_{i}", self._sums, i * size, COLUMNS * _BYTES)

        def sum_of(i: int, p: Index, v: int) -> Any:
            total = load(self._sums, (i * vectors + v) * size + p * COLUMNS, COLUMNS)
            if starts is None:
                return total
            return tirx.Cast(f"float32x{COLUMNS}", tirx.reinterpret(f"int32x{COLUMNS}", total))

        def store(i: int, channels: Channels, p: Index, pixels: int) -> None:
            image, row, x0 = places[i][0]
            grid = [(image, row, x0 + (p + j)) for j in range(pixels)]
            sums = [[sum_of(i, p + j, v) for v in range(vectors)] for j in range(pixels)]
            self.store_pixels(grid, sums, channels)

        def write(channels: Channels) -> None:
            together = max(1, vectors_together(spec.statements) // vectors)
            for i, (_, count) in enumerate(places):
                code.steps("p", count, together, partial(store, i, channels))

        self.channels(block, write)

    def _place(self, matrix: Index) -> tuple[tuple[Index, Index, Index], Index]:
        """Return a data matrix's image, row and first column, and its number of valid pixels."""
        spec, code = self.spec, self.code
        height, width = spec.window.output
        across = ceil(width / self._rows)
        at = matrix
        if self._matrices % self._data:
            at = code.bind("matrix", tirx.min(matrix, self._matrices - 1))
        line, x = divide(code, "line", at, across, spec.batch * height)
        image, row = divide(code, "image", line, height, spec.batch)
        x0 = code.bind("x0", x * self._rows)
        count: Index = self._rows
        if width % self._rows:
            count = tirx.min(width - x0, count)
        if self._matrices % self._data:
            count = tirx.Select(matrix < self._matrices, integer(count), integer(0))
        return (image, row, x0), code.bind("pixels", count)

    def _multiply(self, block: Index, origins: list[Index], nth: Index) -> None:
        """Write the products of all matrices of the window, added up."""
        spec, code = self.spec, self.code
        window, vectors = spec.window, spec.blocking.vectors
        _, sh, sw, pack = spec.data.strides
        run = self._of.run
        columns = window.kernel[1] * spec.channels // run
        weight, width = self.buffers[spec.weight], vectors * COLUMNS
        data = self.buffers[spec.data.buffer]
        size = 2 if self._of.starts is None else 1
        with (
            code.loop("ky", 0, window.kernel[0]) as ky,
            code.loop("kx", 0, columns) as kx,
            code.loop("k", 0, run // self._depth) as k,
        ):
            step = ((block * window.kernel[0] + ky) * columns + kx) * run + k * self._depth
            first = code.bind("weights", step * (width * pack))
            at = code.bind(
                "at",
                ky * (window.dilations[0] * sh)
                + kx * (window.dilations[1] * sw)
                + k * (self._depth * pack),
            )
            for i, origin in enumerate(origins):
                self._call(f"load_{_DATA + i}", data, origin + at, window.strides[1] * sw * size)
            for v in range(vectors):
                place = first + v * (COLUMNS * pack)
                self._call(f"load_{_WEIGHTS + v}", weight, place, width * _BYTES)
            self.passes.fetch(code, block, nth, step * width, self._depth * width)
            for i in range(len(origins)):
                for v in range(vectors):
                    self._call(f"multiply_{i * vectors + v}_{_DATA + i}_{_WEIGHTS + v}")

    def _call(self, name: str, buffer: Any = None, at: Index = 0, stride: int = 0) -> None:
        arguments = []
        if buffer is not None:
            place = tirx.BufferLoad(buffer, element(buffer, integer(at)))
            arguments = [tirx.address_of(place), tirx.IntImm("int64", stride)]
        self.code.append(tirx.Evaluate(tirx.call_extern("void", name, *arguments)))
