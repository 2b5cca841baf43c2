"""Element-wise operators, sums, concatenations and copies: memory in, memory out."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.cpu.kernels.transposition import Transposition
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index
from runtime_ext.kernels.spec import Pointwise, Statement
from runtime_ext.kernels.statements import is_padded, reads_in_order, store_statement, store_vectors
from runtime_ext.kernels.tile_work import across, is_long_run, work_a_tile
from tvm_ios.shapes.extent import ceil_div, is_open, symbols_in

#: Vectors a loop step.
_UNROLL = 4


def pointwise(spec: Pointwise, isa: Isa, finer: bool = False) -> tuple[Any, int]:
    """Return the PrimFunc of element-wise statements and its number of tiles.

    A tile is some consecutive pixels of a row; or, where one statement covers a single long run of
    elements, a piece of that run.
    """
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    work = work_a_tile(spec, finer)
    if is_long_run(spec):
        _long_run(code, spec, work, isa)
        return code.kernel()
    turned = across(spec)
    if turned is not None:
        _across(code, turned, work, isa)
        return code.kernel()
    with code.pixels(spec.grid, work) as grid:
        for statement in spec.statements:
            if is_open(statement.count):
                count = code.extent(statement.count)
                _open_channels(code, spec, statement, isa, grid, 0, count)
            else:
                _channels(code, statement, isa, grid, 0, statement.count)
    return code.kernel()


def _long_run(code: TileCode, spec: Pointwise, piece: int, isa: Isa) -> None:
    (statement,) = spec.statements
    tiles = ceil_div(statement.count, piece)
    with code.tiles(tiles) as tile:
        write = partial(_channels, code, statement, isa, (0, 0, 0))
        if is_open(statement.count):
            write = partial(_open_channels, code, spec, statement, isa, (0, 0, 0))
        code.blocks(tile, statement.count, piece, write)


def _across(code: TileCode, spec: Pointwise, strip: int, isa: Isa) -> None:
    """Write a statement whose values lie along the pixels of a row."""
    (statement,) = spec.statements

    def others(grid: tuple[Index, Index, Index], begin: Index, end: Index) -> None:
        if isinstance(begin, int) and isinstance(end, int):
            _channels(code, statement, isa, grid, begin, end - begin)
        else:
            _open_channels(code, spec, statement, isa, grid, begin, end - begin)

    with code.strips(spec.grid, strip) as (image, row, first, last):
        Transposition(code, statement, isa).write((image, row), first, last, others)


def _open_channels(
    code: TileCode,
    spec: Pointwise,
    statement: Statement,
    isa: Isa,
    grid: tuple[Index, Index, Index],
    begin: Index,
    count: Index,
) -> None:
    """Write a run of any number of consecutive channels of one pixel, by whole vectors."""
    lanes = isa.lanes
    first = code.bind("first", begin)

    def write(at: Index, vectors: int, width: int = lanes) -> None:
        stores = [(statement, grid, first + at + v * width, None, width) for v in range(vectors)]
        store_vectors(code, code.buffers, stores)

    if not reads_in_order(statement.value):
        # Elements behind the last one are far away.
        code.steps("c", count, lanes, lambda at, width: write(at, 1, width))
        return
    steps = code.bind("steps", tirx.truncdiv(count, lanes * _UNROLL))
    with code.loop("c", 0, steps) as c:
        write(c * (lanes * _UNROLL), _UNROLL)
    vectors = code.bind("vectors", tirx.truncdiv(count, lanes))
    with code.loop("c", steps * _UNROLL, vectors) as c:
        write(c * lanes, 1)
    rest = code.bind("rest", count - vectors * lanes)
    shape = spec.buffers[statement.target.buffer]
    with code.branch(rest > 0):
        if not is_padded(statement.target, spec.grid, shape):
            code.stored = rest
        write(vectors * lanes, 1)
        code.stored = None


def _channels(
    code: TileCode,
    statement: Statement,
    isa: Isa,
    grid: tuple[Any, Any, Any],
    begin: Any,
    count: int,
) -> None:
    """Write a run of consecutive channels of one pixel."""
    lanes = isa.lanes
    unroll = _UNROLL if count >= 2 * _UNROLL * lanes else 1
    steps = count // (lanes * unroll)
    if steps > 1:
        with code.loop("c", 0, steps) as c:
            first = begin + c * (lanes * unroll)
            stores = [(statement, grid, first + u * lanes, None, lanes) for u in range(unroll)]
            store_vectors(code, code.buffers, stores)
    done = steps * lanes * unroll if steps > 1 else 0
    while done < count:
        width = min(lanes, count - done)
        store_statement(code, code.buffers, statement, grid, begin + done, None, width)
        done += width
