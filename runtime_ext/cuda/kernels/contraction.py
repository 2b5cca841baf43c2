"""Convolutions and products with constants: an implicit matrix product, in one or two kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any

from tvm import tirx

from runtime_ext.cuda.kernels.contraction_shape import (
    depth_of,
    is_vector_product,
    product_of,
    rows_of,
    stored_width,
)
from runtime_ext.cuda.kernels.gemm import multiply
from runtime_ext.cuda.kernels.gemm_operands import Columns, Pixels, pixel_of
from runtime_ext.cuda.kernels.gemv import vector_results
from runtime_ext.cuda.kernels.split_sum import split_sum
from runtime_ext.cuda.kernels.statements import Pixel, store_statement
from runtime_ext.cuda.kernels.team_sums import Results
from runtime_ext.cuda.kernels.threads import ThreadCode
from runtime_ext.cuda.machine_code.prelude import WEIGHTS
from runtime_ext.kernels.code import Index, load
from runtime_ext.kernels.cut import ChannelPart, channel_parts
from runtime_ext.kernels.phases import Phase, Phases
from runtime_ext.kernels.spec import Contraction, Statement, accesses
from runtime_ext.kernels.statements import divide
from tvm_ios.costs.cuda_kernels.product_estimate import tile_count
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu
from tvm_ios.costs.cuda_kernels.tile import GemmTile


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a block of threads: its columns, first row, and range of the reduction."""

    block: Index
    row: Index
    split: Index


def contraction(spec: Contraction, buffers: list[Any], precision: str, gpu: TargetGpu) -> Phases:
    """Return the kernel of a contraction, or two if its reduction is split among blocks.

    The second adds the partial sums in order, so that results are the same in every run. Tensor
    cores multiply unless ``precision`` is float32; see
    :class:`runtime_ext.cuda.compiler.CudaKernelCompiler`.
    """
    tile = spec.blocking
    assert isinstance(tile, GemmTile)
    reads = {spec.data.buffer, spec.weight}
    stores = {access.buffer for access in accesses(spec.statements)}
    if tile.splits == 1:
        every = tuple(sorted(reads | stores))
        writer = _Writer(spec, tile, buffers, precision)
        return Phases((Phase(writer.product([buffers[i] for i in every]), 1, every),), ())
    parts = channel_parts(spec.parts, tile.columns)
    width = sum(part.blocks for part in parts) * tile.columns
    shape = (tile.splits, rows_of(spec), width)
    partial = tirx.decl_buffer(shape, "float32", f"b{len(buffers)}")
    writer = _Writer(spec, tile, buffers, precision, partial)

    def phase(write: Callable[[list[Any]], Any], arguments: set[int]) -> Phase:
        own = sorted(arguments)
        return Phase(write([*(buffers[i] for i in own), partial]), 1, (*own, len(buffers)))

    def add_up(parameters: list[Any]) -> Any:
        return split_sum(spec, buffers, partial, parameters, gpu)

    phases = (phase(writer.product, reads), phase(add_up, stores))
    return Phases(phases, ((shape, "float32"),))


class _Writer:
    def __init__(
        self,
        spec: Contraction,
        tile: GemmTile,
        buffers: list[Any],
        precision: str,
        partial: Any = None,
    ) -> None:
        self.spec, self.tile, self.buffers, self.partial = spec, tile, buffers, partial
        self.precision = precision
        self.parts = channel_parts(spec.parts, tile.columns)
        self.blocks = sum(part.blocks for part in self.parts)
        self.rows = rows_of(spec)

    def product(self, parameters: list[Any]) -> Any:
        """Return the kernel that multiplies, and stores results or partial sums."""
        spec, tile = self.spec, self.tile
        tiles = tile_count(product_of(spec), tile)
        vectors = is_vector_product(spec)
        code = ThreadCode(tiles * tile.splits, tile.threads)
        split, tile_number = divide(code, "split", code.block, tiles, tile.splits)
        block, tile_row = divide(code, "columns", tile_number, tiles // self.blocks, self.blocks)
        place = _Place(block, code.bind("row", tile_row * tile.rows), split)
        depth = depth_of(spec)
        slabs_each = ceil(ceil(depth / tile.depth) / tile.splits)
        first = code.bind("first", split * slabs_each)
        last = code.bind("last", tirx.min(first + slabs_each, ceil(depth / tile.depth)))
        if tile.splits == 1:
            last = slabs_each
        group: Index = 0
        if spec.groups > 1:
            group, _ = divide(code, "group", block, self.blocks // spec.groups, spec.groups)
        channel = code.bind("channel", group * (spec.channels * spec.data.strides[3]))
        weights = code.bind("weights", block * (depth * tile.columns))
        results: Results
        if vectors:
            results = vector_results(
                code, spec, tile, self.buffers, channel, weights, (first, last), slabs_each
            )
        else:
            a = Pixels(spec, tile, self.buffers, place.row, channel)
            buffer = self.buffers[spec.weight]
            b = Columns(tile, depth, buffer, weights, tile.columns, wide=True)
            results = multiply(code, tile, a, b, (first, last), self.precision)
        if self.partial is None:
            self._store(code, place, results)
        else:
            self._store_partial(code, place, results)
        held = self.buffers[spec.weight]
        number = next(n for n, buffer in enumerate(parameters) if buffer.same_as(held))
        return code.kernel(parameters).with_attr(WEIGHTS, number)

    def _store_partial(self, code: ThreadCode, place: _Place, results: Results) -> None:
        width = self.blocks * self.tile.columns

        def store_row(i: Index, row: Index) -> None:
            def store(column: Index, value: Any, count: int) -> None:
                at = (place.split * self.rows + place.row + row) * width
                at = code.bind("at", at + place.block * self.tile.columns + column)
                values = code.registers("made", count)
                with code.unrolled("j", count) as j:
                    code.store(values, j, value(j), 1)
                code.store(self.partial, at, load(values, 0, count), count)

            with code.branch(self._exists(place.row + row)):
                results.each_column(i, store)

        results.each_row(store_row)

    def _exists(self, row: Index) -> Any:
        return None if self.rows % self.tile.rows == 0 else row < self.rows

    def _store(self, code: ThreadCode, place: _Place, results: Results) -> None:
        def store_row(i: Index, row: Index) -> None:
            line = code.bind("line", place.row + row)
            with code.branch(self._exists(line)):
                pixel = pixel_of(code, self.spec, line)
                for part in self.parts[:1] if self.spec.groups > 1 else self.parts:
                    inside = None
                    if len(self.parts) > 1 and self.spec.groups == 1:
                        end = part.first_block + part.blocks
                        inside = tirx.all(place.block >= part.first_block, place.block < end)
                    with code.branch(inside):
                        self._store_part(code, place, results, i, pixel, part)

        results.each_row(store_row)

    def _store_part(
        self,
        code: ThreadCode,
        place: _Place,
        results: Results,
        i: Index,
        pixel: Pixel,
        part: ChannelPart,
    ) -> None:
        spec, columns = self.spec, self.tile.columns
        group, block = divide(
            code, "group", place.block - part.first_block, part.blocks, spec.groups
        )

        def store(column: Index, value: Any, count: int) -> None:
            inner = code.bind("own", block * columns + column)
            for statement in spec.statements:
                if not statement.begin <= part.begin < statement.begin + statement.count:
                    continue
                shift = group * part.count + (part.begin - statement.begin)
                if stored_width(self.spec, statement) > 1 and count > 1:
                    with code.branch(inner < part.count):
                        self._write(code, statement, pixel, inner + shift, value, count)
                else:
                    with (
                        code.unrolled("j", count) as j,
                        code.branch(inner + j < part.count),
                    ):
                        self._write(
                            code,
                            statement,
                            pixel,
                            inner + j + shift,
                            lambda _, j=j: value(j),
                            1,
                        )

        results.each_column(i, store)

    def _write(
        self,
        code: ThreadCode,
        statement: Statement,
        pixel: Pixel,
        channel: Index,
        value: Any,
        count: int,
    ) -> None:
        store_statement(
            code, self.buffers, statement, pixel, code.bind("channel", channel), value, count
        )
