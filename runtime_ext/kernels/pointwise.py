"""Element-wise operators, sums, concatenations and copies: memory in, memory out."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from runtime_ext.kernels.code import Code, equal
from runtime_ext.kernels.spec import Pointwise, Statement
from runtime_ext.kernels.statements import divide, store_statement
from runtime_ext.kernels.vector_unit import VectorUnit

#: Elements a tile: long against a call, short enough to balance lanes; and to balance many.
_ELEMENTS, _FINER = 4096, 1024
#: Vectors a loop step.
_UNROLL = 4


def pointwise(spec: Pointwise, unit: VectorUnit, finer: bool = False) -> tuple[Any, int]:
    """The PrimFunc of element-wise statements and its number of tiles.

    A tile is some consecutive pixels of a row; or, where one statement covers a single long
    run of elements, a piece of that run.
    """
    buffers = [tirx.decl_buffer(s, "float32", f"b{i}") for i, s in enumerate(spec.buffers)]
    begin, end = tirx.Var("begin", "int32"), tirx.Var("end", "int32")
    code = Code()
    batch, height, width = spec.grid
    strip = work_a_tile(spec, finer)
    if is_long_run(spec):
        tiles = _long_run(code, spec.statements[0], strip, unit, buffers, begin, end)
        return code.function(buffers, begin, end), tiles
    strips = -(-width // strip)
    with code.loop("tile", begin, end) as tile:
        line, part = divide(code, "line", tile, strips, batch * height)
        image, row = divide(code, "image", line, height, batch)
        first = code.bind("first", part * strip)
        last = first + strip if width % strip == 0 else tirx.min(first + strip, width)
        with code.loop("x", first, last) as x:
            for statement in spec.statements:
                _channels(code, statement, unit, buffers, (image, row, x), 0, statement.count)
    return code.function(buffers, begin, end), batch * height * strips


def work_a_tile(spec: Pointwise, finer: bool) -> int:
    """Pixels of a row, or elements of a long run."""
    elements = _FINER if finer else _ELEMENTS
    if is_long_run(spec):
        return min(elements, spec.statements[0].count)
    return max(1, min(spec.grid[2], elements // sum(s.count for s in spec.statements)))


def is_long_run(spec: Pointwise) -> bool:
    """Whether one statement covers all."""
    return spec.grid == (1, 1, 1) and len(spec.statements) == 1


def _long_run(
    code: Code,
    statement: Statement,
    piece: int,
    unit: VectorUnit,
    buffers: list[Any],
    begin: Any,
    end: Any,
) -> int:
    tiles = -(-statement.count // piece)
    rest = statement.count - (tiles - 1) * piece
    with code.loop("tile", begin, end) as tile:
        if rest == piece:
            at = tile * piece if tiles > 1 else 0
            _channels(code, statement, unit, buffers, (0, 0, 0), at, rest)
        else:
            with code.branch(tile < tiles - 1):
                _channels(code, statement, unit, buffers, (0, 0, 0), tile * piece, piece)
            with code.branch(equal(tile, tiles - 1)):
                at = (tiles - 1) * piece
                _channels(code, statement, unit, buffers, (0, 0, 0), at, rest)
    return tiles


def _channels(
    code: Code,
    statement: Statement,
    unit: VectorUnit,
    buffers: list[Any],
    grid: tuple[Any, Any, Any],
    begin: Any,
    count: int,
) -> None:
    """A run of consecutive channels of one pixel."""
    lanes = unit.lanes
    unroll = _UNROLL if count >= 2 * _UNROLL * lanes else 1
    steps = count // (lanes * unroll)
    if steps > 1:
        with code.loop("c", 0, steps) as c:
            for u in range(unroll):
                at = begin + c * (lanes * unroll) + u * lanes
                store_statement(code, buffers, statement, grid, at, None, lanes)
    done = steps * lanes * unroll if steps > 1 else 0
    while done < count:
        width = min(lanes, count - done)
        store_statement(code, buffers, statement, grid, begin + done, None, width)
        done += width
