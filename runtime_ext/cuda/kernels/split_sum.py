"""The second kernel of a contraction whose reduction is split: it adds the parts in order."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from runtime_ext.cuda.kernels.contraction_shape import product_of, rows_of
from runtime_ext.cuda.kernels.statements import pixel_at, store_statement
from runtime_ext.cuda.kernels.threads import THREADS, ThreadCode
from runtime_ext.kernels.code import Index, constant, load
from runtime_ext.kernels.cut import channel_parts
from runtime_ext.kernels.spec import Contraction, Statement
from runtime_ext.kernels.statements import divide
from tvm_ios.costs.cuda_kernels.block_work import IN_FLIGHT
from tvm_ios.costs.cuda_kernels.product_estimate import sum_blocks, sum_widths
from tvm_ios.costs.cuda_kernels.target_gpu import TargetGpu
from tvm_ios.costs.cuda_kernels.tile import GemmTile


def split_sum(
    spec: Contraction, buffers: list[Any], partial: Any, parameters: list[Any], gpu: TargetGpu
) -> Any:
    """Return the kernel that adds the partial sums and stores the results.

    ``partial`` is ``[part][row][column]``, with the columns of whole blocks of packed weights;
    ``parameters`` are the buffers of the statements, and ``partial``.
    """
    tile = spec.blocking
    assert isinstance(tile, GemmTile)
    product = product_of(spec)
    widths = sum_widths(product, tile, gpu)
    blocks = sum_blocks(product, widths)
    code, begin = ThreadCode(sum(blocks)), 0
    for statement, width, block_count in zip(spec.statements, widths, blocks, strict=True):
        inside = None
        if len(blocks) > 1:
            inside = tirx.all(code.block >= begin, code.block < begin + block_count)
        with code.branch(inside):
            item = code.bind("item", (code.block - begin) * THREADS + code.thread)
            across = statement.count // width
            rows = rows_of(spec)
            with code.branch(None if rows * across % THREADS == 0 else item < rows * across):
                row, channel = divide(code, "row", item, across, rows)
                channel = code.bind("channel", channel * width)
                total = _total(code, spec, partial, (statement, row, channel), width)
                pixel = pixel_at(code, row, (spec.batch, *spec.window.output))
                store_statement(code, buffers, statement, pixel, channel, total, width)
        begin += block_count
    return code.kernel(parameters)


def _total(
    code: ThreadCode,
    spec: Contraction,
    partial: Any,
    at: tuple[Statement, Index, Index],
    width: int,
) -> Any:
    """Add the partial sums of neighbouring channels of a row; several parts are read at once."""
    statement, row, channel = at
    tile = spec.blocking
    assert isinstance(tile, GemmTile)
    packed = channel_parts(spec.parts, tile.columns)
    whole = sum(part.blocks for part in packed) * tile.columns
    own = next(part for part in packed if part.begin == statement.begin)
    column: Index = own.first_block * tile.columns + channel
    if spec.groups > 1:
        group, inner = divide(code, "group", channel, own.count, spec.groups)
        column = group * (own.blocks * tile.columns) + inner
    first = code.bind("at", row * whole + column)
    step = rows_of(spec) * whole
    total = code.registers("total", width)
    with code.unrolled("j", width) as j:
        code.store(total, j, constant(0.0, 1), 1)

    def add(begin: Index, count: int) -> None:
        read = code.registers("read", count * width)
        with code.unrolled("i", count) as i:
            value = load(partial, first + (begin + i) * step, width)
            code.store(read, i * width, value, width)
        with code.unrolled("i", count) as i, code.unrolled("j", width) as j:
            code.store(total, j, load(total, j, 1) + load(read, i * width + j, 1), 1)

    several, rest = divmod(tile.splits, IN_FLIGHT)
    if several:
        with code.loop("several", 0, several) as number:
            add(number * IN_FLIGHT, IN_FLIGHT)
    if rest:
        add(several * IN_FLIGHT, rest)
    return lambda j: load(total, j, 1)
