"""Products of two matrices that are both data, as in attention."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

from runtime_ext.cuda.kernels.contraction_shape import product_of
from runtime_ext.cuda.kernels.gemm import multiply
from runtime_ext.cuda.kernels.gemm_operands import Columns, Pixels
from runtime_ext.cuda.kernels.gemm_tile import best_product_tile
from runtime_ext.cuda.kernels.statements import is_wide, statement_width, store_statement
from runtime_ext.cuda.kernels.threads import ThreadCode
from runtime_ext.kernels.code import Index
from runtime_ext.kernels.cut import UNCUT
from runtime_ext.kernels.expression import ACC, Access
from runtime_ext.kernels.spec import Contraction, Product, Window
from runtime_ext.kernels.statements import divide
from tvm_ios.costs.cuda_kernels.block_work import BlockWork
from tvm_ios.costs.cuda_kernels.product_estimate import product_work
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu
from tvm_ios.costs.cuda_kernels.tile import WIDE, GemmTile


def product(spec: Product, buffers: list[Any], gpu: TargetGpu, precision: str) -> Any:
    """Return the kernel of a batch of matrix products: each block computes a tile of one."""
    images, heights, rows = spec.grid
    contraction = _as_contraction(spec)
    tile = _tile(contraction, images * heights, gpu, precision)
    down, across = ceil(rows / tile.rows), ceil(spec.columns / tile.columns)
    code = ThreadCode(images * heights * down * across, tile.threads)
    matrix, tile_number = divide(code, "matrix", code.block, down * across, images * heights)
    image, height = divide(code, "image", matrix, heights, images)
    block, line = divide(code, "block", tile_number, down, across)
    row, column = code.bind("row", line * tile.rows), code.bind("column", block * tile.columns)

    def origin(of: Access) -> Index:
        return image * of.strides[0] + height * of.strides[1]

    a = Pixels(contraction, tile, buffers, row, code.bind("first", origin(spec.data)))
    second, step = spec.other, spec.other.strides[2]
    wide = spec.columns % WIDE == 0 and is_wide(second)
    begin = code.bind("second", second.offset + origin(second) + column)
    left = None if spec.columns % tile.columns == 0 else spec.columns - column
    b = Columns(tile, spec.depth, buffers[second.buffer], begin, step, wide=wide, columns=left)
    steps = (0, ceil(spec.depth / tile.depth))
    results = multiply(code, tile, a, b, steps, precision)

    def store_row(i: Index, row_in_tile: Index) -> None:
        at = code.bind("at", row + row_in_tile)

        def store(first: Index, value: Any, count: int) -> None:
            first = code.bind("first", column + first)
            for statement in spec.statements:
                wide = statement_width(statement) > 1
                width = count if wide else 1
                with code.unrolled("j", count // width) as j:
                    place = code.bind("place", first + j * width)
                    with code.branch(place < spec.columns):
                        store_statement(
                            code,
                            buffers,
                            statement,
                            (image, height, at),
                            place,
                            lambda k, j=j, width=width: value(j * width + k),
                            width,
                        )

        with code.branch(None if rows % tile.rows == 0 else at < rows):
            results.each_column(i, store)

    results.each_row(store_row)
    return code.kernel(buffers)


def block_work(spec: Product, gpu: TargetGpu, precision: str) -> BlockWork:
    """Return the work of a block of the kernel."""
    contraction = _as_contraction(spec)
    tile = _tile(contraction, spec.grid[0] * spec.grid[1], gpu, precision)
    return product_work(product_of(contraction), tile, precision)


def _as_contraction(spec: Product) -> Contraction:
    """Return one of the products as a 1x1 convolution of a row of pixels."""
    rows = (1, spec.grid[2])
    window = Window(rows, rows, (1, 1), (1, 1), (0, 0), (1, 1))
    parts = (spec.columns,)
    return Contraction((), 1, window, spec.depth, 1, spec.data, ACC, 0, parts, UNCUT, ())


def _tile(contraction: Contraction, matrices: int, gpu: TargetGpu, precision: str) -> GemmTile:
    """Return the best tile for one matrix on its share of the GPU, its reduction not split."""
    share = replace(gpu, processors=max(1, gpu.processors // matrices))
    return best_product_tile(contraction, share, precision)
