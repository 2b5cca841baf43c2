"""Statements across axes: values that lie along pixels are stored along channels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, load, shuffle
from runtime_ext.kernels.expression import Access, map_accesses
from runtime_ext.kernels.spec import Statement
from runtime_ext.kernels.statements import element_offset, evaluate, vectors_together

#: Writes channels of a pixel: from the first to before the last.
_Channels = Callable[[tuple[Index, Index, Index], Index, Index], None]


class Transposition:
    """A writer of squares of pixels and channels, which are transposed in registers.

    A vector along the channels would gather each of its elements from another cache line, and all
    of these are often in one set of the cache.
    """

    def __init__(self, code: TileCode, statement: Statement, isa: Isa) -> None:
        self._code, self._statement, self._lanes = code, statement, isa.lanes
        self._turned = replace(statement, value=map_accesses(statement.value, _turned))

    def write(
        self, line: tuple[Index, Index], first: Index, last: Index, others: _Channels
    ) -> None:
        """Write the pixels of a row from ``first`` to before ``last``.

        ``others`` writes what is left beside the squares.
        """
        code, lanes = self._code, self._lanes
        count = code.extent(self._statement.count)
        squares = _quotient(code, last - first, lanes)
        whole = _quotient(code, count, lanes)
        with code.loop("c", 0, whole) as c, code.loop("square", 0, squares) as square:
            self._square((*line, first + square * lanes), c * lanes)
        end = code.bind("end", first + squares * lanes)
        if not isinstance(count, int) or count % lanes:
            with code.loop("x", first, end) as x:
                others((*line, x), whole * lanes, count)
        with code.loop("x", end, last) as x:
            others((*line, x), 0, count)

    def _square(self, grid: tuple[Index, Index, Index], channel: Index) -> None:
        code, lanes, (image, row, x) = self._code, self._lanes, grid
        rows = code.accumulators(lanes, lanes)

        def read(number: int) -> None:
            place = (image, row, channel + number)
            value = evaluate(code, code.buffers, self._turned.value, place, x, None, lanes)
            code.store(rows[number], 0, value, lanes)

        together = vectors_together([self._statement])
        for begin in range(0, lanes, together):
            code.side_by_side(partial(read, n) for n in range(begin, begin + together))
        target = code.access(self._statement.target)
        for number, value in enumerate(self._transposed([load(r, 0, lanes) for r in rows])):
            at = element_offset(target, (image, row, x + number), channel)
            code.store(code.buffers[target.buffer], at, value, lanes)

    def _transposed(self, rows: list[Any]) -> list[Any]:
        """Transpose as many vectors as they have lanes: halves, then halves of these, and so on."""
        lanes, distance = self._lanes, self._lanes // 2
        while distance:
            swapped = list(rows)
            for low in (n for n in range(lanes) if not n & distance):
                pair = (rows[low], rows[low + distance])
                for half in (0, distance):
                    places = [
                        (lane & ~distance) + half + (lanes if lane & distance else 0)
                        for lane in range(lanes)
                    ]
                    swapped[low + half] = self._code.keep(shuffle(pair, places), lanes)
            rows, distance = swapped, distance // 2
        return rows


def _quotient(code: TileCode, number: Index, by: int) -> Index:
    return (
        number // by if isinstance(number, int) else code.bind("whole", tirx.truncdiv(number, by))
    )


def _turned(access: Access) -> Access:
    """Return an access whose pixels of a row and channels have changed places."""
    image, row, pixel, channel = access.strides
    return replace(access, strides=(image, row, channel, pixel))
