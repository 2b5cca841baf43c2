"""A block's tile of a matrix product: operand slabs in shared memory, results in registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from runtime_ext.cuda.kernels.gemm_operands import Operand
from runtime_ext.cuda.kernels.team_sums import Results, UseColumns, sum_of_teams
from runtime_ext.cuda.kernels.tensor_cores import WarpTiles
from runtime_ext.cuda.kernels.threads import ThreadCode
from runtime_ext.kernels.code import Index, constant, load
from runtime_ext.kernels.statements import divide
from tvm_ios.costs.cuda_kernels.tile import WIDE, GemmTile, slab_bytes


class ThreadTiles:
    """A block's results without tensor cores: each thread of a team holds a tile in registers."""

    def __init__(self, code: ThreadCode, tile: GemmTile) -> None:
        self.code, self.tile = code, tile
        across = tile.columns // tile.thread_columns
        self.team, thread = divide(code, "team", code.thread, tile.team, tile.teams)
        self._y, self._x = divide(code, "thread_row", thread, across, tile.team // across)
        self.held = code.registers("acc", tile.thread_rows * tile.thread_columns)

    def multiply_add(self, a: tuple[Any, Index, int], b: tuple[Any, Index, int]) -> None:
        """Add the product of a slab of rows and one of columns: (buffer, origin, stride) each."""
        code, tile = self.code, self.tile
        rows, columns = tile.thread_rows, tile.thread_columns
        share = tile.depth // tile.teams
        with code.unrolled("k", share) as own:
            k = self.team * share + own
            left = _fragment(code, a, k, self._y, tile.rows, rows)
            right = _fragment(code, b, k, self._x, tile.columns, columns)
            with code.unrolled("i", rows) as i, code.unrolled("j", columns) as j:
                at = i * columns + j
                value = load(self.held, at, 1) + load(left, i, 1) * load(right, j, 1)
                code.store(self.held, at, value, 1)

    def each_row(self, use: Callable[[Index, Index], None]) -> None:
        """Call ``use`` for each row of this thread: its number in the thread, and in the block."""
        with self.code.unrolled("i", self.tile.thread_rows) as i:
            use(i, _spread(i, self._y, self.tile.rows, self.tile.thread_rows))

    def each_column(self, i: Index, use: UseColumns) -> None:
        """Call ``use`` for each run of neighbouring columns of a row of the thread."""
        count = self.tile.thread_columns
        width = min(WIDE, count)
        for begin in range(0, count, width):

            def value(j: Index, begin: int = begin) -> Any:
                return load(self.held, i * count + begin + j, 1)

            use(_spread(begin, self._x, self.tile.columns, count), value, width)


def multiply(
    code: ThreadCode,
    tile: GemmTile,
    a: Operand,
    b: Operand,
    steps: tuple[Index, Index],
    precision: str,
) -> Results:
    """Sum the products of a range of slabs; prefetch the next slab while one is multiplied."""
    first, last = steps
    results = (
        ThreadTiles(code, tile) if precision == "float32" else WarpTiles(code, tile, precision)
    )
    with code.unrolled("i", int(results.held.ty.shape[0])) as i:
        code.store(results.held, i, constant(0.0, 1), 1)
    sizes = [tile.depth * operand.stride for operand in (a, b)]
    slabs, origins = _slabs(code, tile, sizes)
    for operand, slab, origin in zip((a, b), slabs, origins, strict=True):
        operand.prepare(code)
        operand.fetch(code, first)
        operand.keep(code, slab, origin)
    code.synchronise()
    with code.loop("step", first, last) as step:
        parity = code.bind("turn", tirx.floormod(step - first, 2))
        with code.branch(step + 1 < last):
            a.fetch(code, step + 1)
            b.fetch(code, step + 1)
        results.multiply_add(
            (slabs[0], origins[0] + parity * sizes[0], a.stride),
            (slabs[1], origins[1] + parity * sizes[1], b.stride),
        )
        with code.branch(step + 1 < last):
            a.keep(code, slabs[0], origins[0] + (1 - parity) * sizes[0])
            b.keep(code, slabs[1], origins[1] + (1 - parity) * sizes[1])
        code.synchronise()
    if tile.teams == 1:
        return results
    return sum_of_teams(code, tile, results.team, results, slabs[0])


def _slabs(code: ThreadCode, tile: GemmTile, sizes: list[int]) -> tuple[list[Any], list[int]]:
    """Allocate shared memory for two slabs of each operand; return buffers and origins.

    Teams reuse the same memory to add their sums once the last slab is multiplied.
    """
    if tile.teams == 1:
        return [code.shared(f"slab{n}", 2 * size) for n, size in enumerate(sizes)], [0, 0]
    slabs = code.shared("slabs", slab_bytes(tile) // 4)
    return [slabs, slabs], [0, 2 * sizes[0]]


def _fragment(
    code: ThreadCode, slab: tuple[Any, Index, int], k: Index, at: Index, extent: int, count: int
) -> Any:
    """Load a thread's elements at one depth of a slab into registers."""
    shared, origin, stride = slab
    fragment = code.registers("fragment", count)
    width = min(WIDE, count)
    for begin in range(0, count, width):
        element = origin + k * stride + _spread(begin, at, extent, count)
        code.store(fragment, begin, load(shared, element, width), width)
    return fragment


def _spread(index: Index, at: Index, extent: int, count: int) -> Index:
    """Return the row of a block that is a thread's row ``index``.

    A thread's rows are runs of four, apart from each other, so that the threads of a warp read
    shared memory without bank conflicts.
    """
    width = min(WIDE, count)
    if isinstance(index, int):
        run, offset = divmod(index, width)
    else:
        run, offset = tirx.floordiv(index, width), tirx.floormod(index, width)
    return run * (extent * width // count) + at * width + offset
