"""Attention as one kernel: a tile is some rows of queries, whose scores stay in a core's cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from runtime_ext.cpu.kernels.normalisation import row_writer
from runtime_ext.cpu.kernels.product import product_writer
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.chain import Attention
from runtime_ext.kernels.code import Index
from runtime_ext.kernels.expression import Access
from runtime_ext.kernels.spec import Normalisation, Product
from runtime_ext.kernels.statements import divide
from tvm_ios.errors import UserError
from tvm_ios.program.program import LINE
from tvm_ios.shapes.extent import ceil_div, end_values, evaluate, is_open, symbols_in, symbols_of

#: Bytes of a stack that an attention of open rows takes at most.
_STACK = 112 * 1024

_Spec = TypeVar("_Spec", Normalisation, Product)


def attention(spec: Attention, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of an attention and its number of tiles (runs of rows of queries).

    Raise UserError if the most scores of open rows are too large for a stack.
    """
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    images, heights, rows = spec.softmax.grid
    blocks = ceil_div(rows, spec.rows)
    # Align rows of scores to whole vectors.
    aligned = LINE if is_open(spec.softmax.count) else isa.lanes
    row = ceil_div(spec.softmax.count, aligned) * aligned
    scores = spec.rows * evaluate(row, end_values(symbols_of(row))[1])
    if is_open(row) and scores * 4 > _STACK:
        raise UserError(
            f"the scores of {spec.rows} rows of an attention take up to {scores * 4} bytes, and a "
            f"kernel has {_STACK}: give a range of shorter lengths"
        )
    with code.tiles(images * heights * blocks) as tile:
        # The softmax replaces the scores in place.
        memory = code.on_stack(scores)
        code.buffers += [memory] * (1 if spec.scores is None else 2)
        matrix, part = divide(code, "matrix", tile, blocks, images * heights)
        place = divide(code, "image", matrix, heights, images)
        writer = _Writer(spec, isa, code, place, row)
        code.blocks(part, rows, spec.rows, writer.rows)
        del code.buffers[len(spec.buffers) :]
    return code.kernel()


class _Writer:
    """A writer of a tile's code: scores, their softmax, and the product with the values."""

    def __init__(
        self, spec: Attention, isa: Isa, code: TileCode, matrix: tuple[Index, Index], row: int
    ) -> None:
        self.isa, self.code, self.matrix, self.row = isa, code, matrix, row
        self.scores, self.softmax, self.values = spec.scores, spec.softmax, spec.values
        handed = len(spec.buffers)
        # Intermediate results count as buffers after the others.
        buffers = (*spec.buffers, (spec.rows * row,), (spec.rows * row,))
        self.softmax = replace(self.softmax, buffers=buffers)
        self.values = replace(self.values, buffers=buffers)
        if self.scores is not None:
            self.scores = self._to_tile(replace(self.scores, buffers=buffers), handed)
            self.softmax = replace(self.softmax, data=self._of_tile(handed))
            handed += 1
        self.softmax = self._to_tile(self.softmax, handed)
        self.values = replace(self.values, data=self._of_tile(handed))

    def rows(self, first: Index, count: Index) -> None:
        """Write the code of ``count`` rows of queries."""
        code = self.code
        first = code.bind("query", first)
        shift = code.bind("shift", first * code.extent(-self.row))
        if self.scores is not None:
            writer = product_writer(self.scores)
            scores = writer(self.scores, self.isa, code, self.matrix, 0, shift)
            scores.rows(first, count)
        read_shift = 0 if self.scores is None else shift
        with code.loop("row", 0, count) as row:
            grid = (*self.matrix, code.bind("at", first + row))
            writer = row_writer(self.softmax)
            writer(self.softmax, self.isa, code, grid, read_shift, shift).write()
        writer = product_writer(self.values)
        writer(self.values, self.isa, code, self.matrix, shift).rows(first, count)

    def _of_tile(self, buffer: int) -> Access:
        return Access(buffer, 0, (0, 0, self.row, 1))

    def _to_tile(self, spec: _Spec, buffer: int) -> _Spec:
        """Return the spec with its result stored in the tile's memory."""
        (statement,) = spec.statements
        return replace(spec, statements=(replace(statement, target=self._of_tile(buffer)),))
