"""Cut rows of any number of output pixels into register tiles with known handling of borders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.blocking import open_sizes
from runtime_ext.cpu.kernels.rows import TileRun, column, kernel_columns
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.kernels.code import Index, equal, is_number
from runtime_ext.kernels.expression import loads
from runtime_ext.kernels.spec import Contraction, Pooling, Window
from tvm_ios.errors import UserError
from tvm_ios.shapes.extent import bounds, ceil_div, numbers_in_range

#: Right borders, of rows of different remainders of the stride, that have code of their own.
_MOST_BORDERS = 3
#: The most numbers of columns that are looked at.
_GRID = 1 << 16
#: Far from any border.
_FAR = 1 << 20


@dataclass(frozen=True)
class RowWriter:
    """Writers of the pixels of a row."""

    #: Writes the register tile that begins at a column.
    tile: Callable[[Index, TileRun], None]
    #: Writes the pixel at a column, of the kernel columns in a range.
    pixel: Callable[[Index, Index, Index], None]


def require_apart(spec: Contraction | Pooling) -> None:
    """Raise UserError if a kernel reads a buffer that it writes.

    Its tiles may store an element twice, which they may not read between.
    """
    read = {spec.data.buffer, *(a.buffer for s in spec.statements for a in loads(s.value))}
    if read & {statement.target.buffer for statement in spec.statements}:
        raise UserError(
            f"there is no kernel of open extents for a {type(spec).__name__} that reads what it "
            "writes: give exact shapes"
        )


class OpenRow:
    """The cut of a row of any number of pixels.

    The last register tile ends where the row ends, and overlaps the one before it: so the first
    one, the last one and those between need one copy of the code each, whatever the width. Pixels
    in two tiles are stored twice, the same bits. Rows of few pixels are cut into smaller tiles;
    of the narrowest, and of borders that are wider than a tile, each pixel is a tile, whose
    kernel columns are those that exist.
    """

    def __init__(self, code: TileCode, window: Window, pixels: int) -> None:
        self._code, self._window, self._pixels = code, window, pixels
        stride, dilation = window.strides[1], window.dilations[1]
        self._reach = (window.kernel[1] - 1) * dilation - window.pads[1] + 1
        # The columns of padding that the last pixel reads.
        over: int = (window.output[1] - 1) * stride + self._reach - window.input[1]
        every = numbers_in_range(over, _GRID)
        most = bounds(over)[1] if every is None else every[-1]
        self._borders = tuple(n for n in every or () if n > 0)[: _MOST_BORDERS + 1]
        self._is_sure = every is not None and (len(every) == 1 or every[0] > 0)
        self._over = code.extent(over)
        #: Pixels at either end that read padding.
        self._left, self._right = (max(0, ceil_div(n, stride)) for n in (window.pads[1], most))
        self._output = code.extent(window.output[1])
        self._narrowest = bounds(window.output[1])[0]

    def write(self, writer: RowWriter, first: Index = 0, last: Index | None = None) -> None:
        """Write the pixels from column ``first`` to before ``last``, by default all.

        Others begin, and end, more than the border from the ends of the row.
        """
        code = self._code
        whole = last is None
        last = self._output if last is None else last
        width: Any = self._output if whole else code.bind("width", last - first)
        wider: Any = None
        for size in open_sizes(self._pixels):
            least = self._least(size)
            is_narrowest = whole and self._narrowest >= least
            conditions = [
                c for c in (wider, None if is_narrowest else width >= least) if c is not None
            ]
            with code.branch(_all(conditions)):
                self._tiles(size, writer, first, last)
            if is_narrowest:
                return
            wider = width < least
        with code.branch(wider):
            self._single(writer, first, last)

    def _least(self, size: int) -> int:
        """Return the fewest pixels that are cut into tiles of a size: too few are done twice."""
        return max(size + self._left + self._right, size + size // 2)

    def _tiles(self, size: int, writer: RowWriter, first: Index, last: Index) -> None:
        code, everything = self._code, self._valid(size, _FAR, 2 * _FAR * self._window.strides[1])
        begin, low = first, first
        if self._left:
            alone = self._left > size
            with code.branch(None if is_number(first, 0) else equal(first, 0)):
                if alone:
                    self._single(writer, 0, self._left)
                else:
                    writer.tile(0, TileRun(0, 1, size, self._valid(size, 0, 2 * _FAR)))
            # Tiles between may overlap the first one, but not read padding.
            begin = _max(first, self._left if alone else size)
            low = _max(first, self._left)
        alone = self._right > size or not 0 < len(self._borders) <= _MOST_BORDERS
        end, at_end = last, None if last is self._output else equal(last, self._output)
        if self._right:
            behind = self._right if alone else size
            conditions = [] if at_end is None else [at_end]
            if not self._is_sure:
                conditions.append(self._over > 0)
            end, is_border = last - behind, _all(conditions)
            if is_border is not None:
                end = code.keep_index(tirx.Select(is_border, end, last))
        rest = _max(end - begin, 0)
        count = code.bind("count", tirx.truncdiv(rest + (size - 1), size))
        final = code.bind("final", end - size)
        with code.loop("x", 0, count) as x:
            at = code.keep_index(_max(tirx.min(begin + x * size, final), low))
            writer.tile(at, TileRun(0, 2, size, everything))
        if not self._right:
            return
        with code.branch(at_end):
            if alone:
                self._single(writer, end, last)
                return
            at = code.bind("last", last - size)
            for over in self._borders:
                stride = self._window.strides[1]
                end_of_input = (_FAR + size - 1) * stride + self._reach - over
                run = TileRun(0, 1, size, self._valid(size, _FAR, end_of_input))
                is_only = self._is_sure and len(self._borders) == 1
                with code.branch(None if is_only else equal(self._over, over)):
                    writer.tile(at, run)

    def _valid(self, size: int, first: int, width: int) -> frozenset[tuple[int, int]]:
        """Return which pixels and kernel columns read inside an input of a width."""
        window = self._window
        return frozenset(
            (p, k)
            for p in range(size)
            for k in range(window.kernel[1])
            if 0 <= column(window, first + p, k) < width
        )

    def _single(self, writer: RowWriter, first: Index, last: Index) -> None:
        """Write each pixel alone, by the kernel columns that exist."""
        with self._code.loop("x", first, last) as x:
            writer.pixel(x, *kernel_columns(self._code, self._window, x))


def _all(conditions: Sequence[Any]) -> Any:
    """Return the condition that all hold; None for none."""
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return tirx.all(*conditions)


def _max(index: Index, number: int) -> Index:
    if isinstance(index, int):
        return max(index, number)
    greater: Any = tirx.max(index, number)
    return greater
