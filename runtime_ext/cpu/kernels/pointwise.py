"""Element-wise operators, sums, concatenations and copies: memory in, memory out."""

from __future__ import annotations

from functools import partial
from typing import Any

from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.spec import Pointwise, Statement
from runtime_ext.kernels.statements import store_statement, store_vectors
from runtime_ext.kernels.tile_work import is_long_run, work_a_tile

#: Vectors a loop step.
_UNROLL = 4


def pointwise(spec: Pointwise, isa: Isa, finer: bool = False) -> tuple[Any, int]:
    """Return the PrimFunc of element-wise statements and its number of tiles.

    A tile is some consecutive pixels of a row; or, where one statement covers a single long run of
    elements, a piece of that run.
    """
    code = TileCode(spec.buffers, isa)
    work = work_a_tile(spec, finer)
    if is_long_run(spec):
        _long_run(code, spec.statements[0], work, isa)
        return code.kernel()
    with code.pixels(spec.grid, work) as grid:
        for statement in spec.statements:
            _channels(code, statement, isa, grid, 0, statement.count)
    return code.kernel()


def _long_run(code: TileCode, statement: Statement, piece: int, isa: Isa) -> None:
    tiles = -(-statement.count // piece)
    with code.tiles(tiles) as tile:
        write = partial(_channels, code, statement, isa, (0, 0, 0))
        code.blocks(tile, statement.count, piece, write)


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
