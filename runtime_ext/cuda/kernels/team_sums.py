"""The end of a product that teams of a block share: adding their sums in shared memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

from runtime_ext.cuda.kernels.threads import ThreadCode
from runtime_ext.kernels.code import Index, constant, load
from runtime_ext.kernels.statements import divide
from tvm_ios.costs.cuda_kernels.tile import WIDE, GemmTile

#: Called with the first of some neighbouring columns of the block, their values, and how many.
UseColumns = Callable[[Index, Callable[[Index], Any], int], None]


class Results(Protocol):
    """A block's tile of results, distributed over its threads."""

    def each_row(self, use: Callable[[Index, Index], None]) -> None:
        """Call ``use`` for each row of this thread: its number in the thread, and in the block."""
        ...

    def each_column(self, i: Index, use: UseColumns) -> None:
        """Call ``use`` for each run of neighbouring columns of a row of the thread."""
        ...


@dataclass(frozen=True)
class TeamSums:
    """Partial tiles of results in shared memory, one for each team, which are added in order.

    A thread has four columns of one or several rows; some threads may have none. ``parts`` is
    ``[team][row][column]``, complete once all threads have passed a barrier.
    """

    code: ThreadCode
    tile: GemmTile
    parts: Any
    teams: int

    def each_row(self, use: Callable[[Index, Index], None]) -> None:
        """Call ``use`` for each row of this thread: its number in the thread, and in the block."""
        code, across = self.code, self.tile.columns // WIDE
        items = self.tile.rows * across
        passes = ceil(items / code.threads)
        with code.unrolled("p", passes) as p:
            row, _ = divide(code, "row", self._item(p), across, passes * code.threads // across)
            with code.branch(None if items % code.threads == 0 else row < self.tile.rows):
                use(p, row)

    def each_column(self, i: Index, use: UseColumns) -> None:
        """Add the teams' sums of this thread's four columns of a row, and call ``use`` on them."""
        code, tile = self.code, self.tile
        row, place = divide(code, "row", self._item(i), tile.columns // WIDE, tile.rows)
        total = code.registers("total", WIDE)
        with code.unrolled("j", WIDE) as j:
            code.store(total, j, constant(0.0, 1), 1)
        with code.unrolled("team", self.teams) as team, code.unrolled("j", WIDE) as j:
            at = (team * tile.rows + row) * tile.columns + place * WIDE + j
            code.store(total, j, load(total, j, 1) + load(self.parts, at, 1), 1)
        use(place * WIDE, lambda j: load(total, j, 1), WIDE)

    def _item(self, i: Index) -> Index:
        return i * self.code.threads + self.code.thread


def sum_of_teams(
    code: ThreadCode, tile: GemmTile, team: Index, results: Results, parts: Any
) -> TeamSums:
    """Write the sums of each team to shared memory, so that all threads can add them.

    ``team`` is this thread's team, and ``results`` its sums over that team's part of the reduction.
    ``parts`` is shared memory of ``teams * rows * columns`` elements that nobody reads any more.
    """

    def keep(i: Index, row: Index) -> None:
        def store(column: Index, value: Callable[[Index], Any], count: int) -> None:
            at = code.bind("at", (team * tile.rows + row) * tile.columns + column)
            values = code.registers("part", count)
            with code.unrolled("j", count) as j:
                code.store(values, j, value(j), 1)
            code.store(parts, at, load(values, 0, count), count)

        results.each_column(i, store)

    results.each_row(keep)
    code.synchronise()
    return TeamSums(code, tile, parts, tile.teams)
