"""The second kernel of a contraction whose reduction is split: it adds the parts in order."""

from __future__ import annotations

from math import ceil
from typing import Any

from tvm import tirx

from runtime_ext.cuda.kernels.block_work import IN_FLIGHT, BlockWork, grid_cycles
from runtime_ext.cuda.kernels.contraction_shape import rows_of, stored_width
from runtime_ext.cuda.kernels.statements import pixel_at, store_statement
from runtime_ext.cuda.kernels.threads import THREADS, ThreadCode
from runtime_ext.cuda.machine_code.target_gpu import TargetGpu
from runtime_ext.kernels.code import Index, constant, load
from runtime_ext.kernels.cut import GemmTile, channel_parts
from runtime_ext.kernels.spec import Contraction, Statement
from runtime_ext.kernels.statements import divide
from tvm_ios.devices.occupancy import Footprint

#: Instructions to find a result's pixel, and to activate and store it; registers of a thread.
_PIXEL, _STORE, _REGISTERS = 40, 12, 40


def sum_cycles(spec: Contraction, tile: GemmTile, gpu: TargetGpu) -> float:
    """Return the estimated cycles of the second kernel, without its launch."""
    return _cycles(spec, tile, sum_widths(spec, tile, gpu), gpu)


def sum_widths(spec: Contraction, tile: GemmTile, gpu: TargetGpu) -> list[int]:
    """Return the channels per thread of each statement: four, or one if estimated faster."""
    widest = [stored_width(spec, statement) for statement in spec.statements]
    choices = [widest, [1] * len(widest)]
    return min(choices, key=lambda widths: _cycles(spec, tile, widths, gpu))


def sum_blocks(spec: Contraction, widths: list[int]) -> list[int]:
    """Return the number of blocks of each statement."""
    rows = rows_of(spec)
    items = (rows * s.count // w for s, w in zip(spec.statements, widths, strict=True))
    return [ceil(count / THREADS) for count in items]


def sum_work(tile: GemmTile, width: int) -> BlockWork:
    """Return the work of a block of the second kernel."""
    together = min(IN_FLIGHT, tile.splits)
    return BlockWork(
        Footprint(THREADS, _REGISTERS + together * width, 0),
        steps=ceil(tile.splits / together),
        beside=2.0 * together,
        products=0.0,
        after=together * width,
        once=_PIXEL + _STORE * width,
        nbytes=4.0 * together * width * THREADS,
        shared=0.0,
    )


def split_sum(
    spec: Contraction, buffers: list[Any], partial: Any, parameters: list[Any], gpu: TargetGpu
) -> Any:
    """Return the kernel that adds the partial sums and stores the results.

    ``partial`` is ``[part][row][column]``, with the columns of whole blocks of packed weights;
    ``parameters`` are the buffers of the statements, and ``partial``.
    """
    tile = spec.blocking
    assert isinstance(tile, GemmTile)
    widths = sum_widths(spec, tile, gpu)
    blocks = sum_blocks(spec, widths)
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


def _cycles(spec: Contraction, tile: GemmTile, widths: list[int], gpu: TargetGpu) -> float:
    return grid_cycles(sum_work(tile, max(widths)), sum(sum_blocks(spec, widths)), gpu)
