"""A block's tile of a matrix product: slabs in shared memory, a tile of results a thread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from runtime_ext.cuda.gemm_operands import Operand
from runtime_ext.cuda.gemm_tile import GemmTile
from runtime_ext.cuda.statements import WIDE
from runtime_ext.cuda.threads import ThreadCode
from runtime_ext.kernels.code import Index, constant, load
from runtime_ext.kernels.statements import divide

#: What to do with the first of some neighbouring columns of the block, their values, how many.
UseColumns = Callable[[Index, Callable[[Index], Any], int], None]


@dataclass(frozen=True)
class Results:
    """What a block's threads hold once the product is computed."""

    code: ThreadCode
    tile: GemmTile
    held: Any

    def each_row(self, use: Callable[[Index, Index], None]) -> None:
        """For each row of this thread: its number in the thread, and in the block."""
        y, _ = _position(self.code, self.tile)
        with self.code.unrolled("i", self.tile.thread_rows) as i:
            use(i, _spread(i, y, self.tile.rows, self.tile.thread_rows))

    def each_column(self, i: Index, use: UseColumns) -> None:
        """For each run of neighbouring columns of a row of the thread."""
        width = min(WIDE, self.tile.thread_columns)
        _, x = _position(self.code, self.tile)
        for begin in range(0, self.tile.thread_columns, width):

            def value(j: Index, begin: int = begin) -> Any:
                return load(self.held, i * self.tile.thread_columns + begin + j, 1)

            use(_spread(begin, x, self.tile.columns, self.tile.thread_columns), value, width)


def multiply(
    code: ThreadCode, tile: GemmTile, a: Operand, b: Operand, first: Index, last: Index
) -> Results:
    """Sum the products of slabs ``[first, last)``; while one is multiplied, the next is read."""
    acc = code.registers("acc", tile.thread_rows * tile.thread_columns)
    with code.unrolled("i", tile.thread_rows * tile.thread_columns) as i:
        code.store(acc, i, constant(0.0, 1), 1)
    slabs = [code.shared(f"slab{n}", 2 * tile.depth * x.stride) for n, x in enumerate((a, b))]
    for operand, slab in ((a, slabs[0]), (b, slabs[1])):
        operand.prepare(code)
        operand.fetch(code, first)
        operand.keep(code, slab, 0)
    code.synchronise()
    with code.loop("step", first, last) as step:
        half = code.bind("half", tirx.floormod(step - first, 2))
        with code.branch(step + 1 < last):
            a.fetch(code, step + 1)
            b.fetch(code, step + 1)
        sizes = [tile.depth * a.stride, tile.depth * b.stride]
        _multiply_add(code, tile, acc, (slabs[0], half * sizes[0], a.stride), (slabs[1], half * sizes[1], b.stride))
        with code.branch(step + 1 < last):
            a.keep(code, slabs[0], (1 - half) * sizes[0])
            b.keep(code, slabs[1], (1 - half) * sizes[1])
        code.synchronise()
    return Results(code, tile, acc)


def _multiply_add(
    code: ThreadCode,
    tile: GemmTile,
    acc: Any,
    a: tuple[Any, Index, int],
    b: tuple[Any, Index, int],
) -> None:
    """One slab: for each of its depths the outer product of a column and a row."""
    y, x = _position(code, tile)
    with code.unrolled("k", tile.depth) as k:
        left = _fragment(code, a, k, y, tile.rows, tile.thread_rows)
        right = _fragment(code, b, k, x, tile.columns, tile.thread_columns)
        with code.unrolled("i", tile.thread_rows) as i, code.unrolled("j", tile.thread_columns) as j:
            at = i * tile.thread_columns + j
            code.store(acc, at, load(acc, at, 1) + load(left, i, 1) * load(right, j, 1), 1)


def _fragment(
    code: ThreadCode, slab: tuple[Any, Index, int], k: Index, at: Index, extent: int, own: int
) -> Any:
    """What a thread needs of one depth of a slab, in registers."""
    shared, origin, stride = slab
    fragment = code.registers("fragment", own)
    width = min(WIDE, own)
    for begin in range(0, own, width):
        place = origin + k * stride + _spread(begin, at, extent, own)
        code.store(fragment, begin, load(shared, place, width), width)
    return fragment


def _position(code: ThreadCode, tile: GemmTile) -> tuple[Index, Index]:
    """Row and column of the thread among the threads of its block."""
    across = tile.columns // tile.thread_columns
    return divide(code, "thread_row", code.thread, across, tile.threads // across)


def _spread(own: Index, at: Index, extent: int, count: int) -> Index:
    """Which of a block's rows a thread's own ``own`` is: runs of four, apart from each other.

    So the threads of a warp read shared memory without conflicts of banks.
    """
    width = min(WIDE, count)
    run, rest = (own // width, own % width) if isinstance(own, int) else (
        tirx.floordiv(own, width),
        tirx.floormod(own, width),
    )
    return run * (extent * width // count) + at * width + rest
