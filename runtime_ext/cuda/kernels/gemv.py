"""Products of a few vectors with a matrix: every weight is read once, by neighbouring threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from runtime_ext.cuda.kernels.gemm import UseColumns
from runtime_ext.cuda.kernels.gemm_operands import pixel_of
from runtime_ext.cuda.kernels.gemm_tile import depth_of
from runtime_ext.cuda.kernels.statements import WIDE, evaluate, fetch, fetch_wide
from runtime_ext.cuda.kernels.threads import ThreadCode
from runtime_ext.kernels.code import Index, constant, load
from runtime_ext.kernels.cut import GemmTile
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Contraction
from runtime_ext.kernels.statements import divide


@dataclass(frozen=True)
class VectorResults:
    """Sums in shared memory, of which some threads have four columns of a row each."""

    code: ThreadCode
    tile: GemmTile
    sums: Any

    def each_row(self, use: Callable[[Index, Index], None]) -> None:
        """The row of this thread, if it has one."""
        across = self.tile.columns // WIDE
        row, _ = divide(self.code, "row", self.code.thread, across, self.code.threads // across)
        with self.code.branch(row < self.tile.rows):
            use(0, row)

    def each_column(self, i: Index, use: UseColumns) -> None:
        """The four columns of this thread."""
        code, tile = self.code, self.tile
        across = tile.columns // WIDE
        teams = code.threads // across
        row, place = divide(code, "row", code.thread, across, teams)
        total = code.registers("total", WIDE)
        with code.unrolled("j", WIDE) as j:
            code.store(total, j, constant(0.0, 1), 1)
        with code.unrolled("team", teams) as team, code.unrolled("j", WIDE) as j:
            at = (team * tile.rows + row) * tile.columns + place * WIDE + j
            code.store(total, j, load(total, j, 1) + load(self.sums, at, 1), 1)
        use(place * WIDE, lambda j: load(total, j, 1), WIDE)


def vector_results(
    code: ThreadCode,
    spec: Contraction,
    tile: GemmTile,
    buffers: list[Any],
    channel: Index,
    weights: Index,
    steps: tuple[Index, Index],
) -> VectorResults:
    """Each team of threads sums the products of every so many rows of the weights.

    Parameters
    ----------
    channel
        Where the group's channels begin, in elements.
    weights
        Where the block's columns begin, in elements.
    steps
        The range of the reduction, in units of the tile's depth.
    """
    depth, rows = depth_of(spec), tile.rows
    across = tile.columns // WIDE
    teams = code.threads // across
    team, place = divide(code, "team", code.thread, across, teams)
    acc = code.registers("acc", rows * WIDE)
    with code.unrolled("i", rows * WIDE) as i:
        code.store(acc, i, constant(0.0, 1), 1)
    origins = [
        spec.data.offset
        + channel
        + image * spec.data.strides[0]
        + y * spec.window.strides[0] * spec.data.strides[1]
        + x * spec.window.strides[1] * spec.data.strides[2]
        for image, y, x in (pixel_of(code, spec, row) for row in range(rows))
    ]
    with code.loop("step", *steps) as step:
        k = code.bind("k", step * tile.depth + team)
        inside = [k < depth] if depth % tile.depth else []
        inside += [team < tile.depth] if teams > tile.depth else []
        with code.branch(tirx.all(*inside) if inside else None):
            at = weights + k * tile.columns + place * WIDE
            read = fetch_wide(code, "w", buffers[spec.weight], at, WIDE)
            for row, origin in enumerate(origins):
                value = fetch(buffers[spec.data.buffer], origin + k * spec.data.strides[3])
                if spec.prologue != ACC:
                    value = evaluate(code, spec.prologue, value)
                value = code.bind_vector("x", value, 1)
                with code.unrolled("j", WIDE) as j:
                    element = row * WIDE + j
                    code.store(acc, element, load(acc, element, 1) + value * fetch(read, j), 1)
    sums = code.shared("sums", teams * rows * tile.columns)
    with code.unrolled("row", rows) as row:
        at = (team * rows + row) * tile.columns + place * WIDE
        code.store(sums, at, load(acc, row * WIDE, WIDE), WIDE)
    code.synchronise()
    return VectorResults(code, tile, sums)
