"""Operands of a block's matrix product: slabs copied from memory into shared memory.

An operand is read in three steps, so that a slab travels while the one before is multiplied:
:meth:`prepare` once, then for each slab :meth:`fetch` into registers and, later, :meth:`keep` in
shared memory as ``[depth][rows or columns]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, Protocol

from tvm import tirx

from runtime_ext.cuda.kernels.contraction_shape import depth_of, has_borders, reads_wide, rows_of
from runtime_ext.cuda.kernels.statements import Pixel, evaluate, fetch, fetch_wide, pixel_at
from runtime_ext.cuda.kernels.threads import ThreadCode
from runtime_ext.kernels.code import Index, constant, load
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Contraction
from runtime_ext.kernels.statements import divide
from tvm_ios.costs.cuda_kernels.tile import PADDING, WIDE, GemmTile


class Operand(Protocol):
    """A matrix of a product as a block reads it; ``stride`` is that of its shared slabs."""

    stride: int

    def prepare(self, code: ThreadCode) -> None:
        """Compute the values that all slabs need."""
        ...

    def fetch(self, code: ThreadCode, slab: Index) -> None:
        """Read this thread's part of a slab into registers."""
        ...

    def keep(self, code: ThreadCode, shared: Any, origin: Index) -> None:
        """Write the fetched part to shared memory, whose slab begins at ``origin``."""
        ...


@dataclass(frozen=True, slots=True)
class _Share:
    """The part of a slab that a thread reads: ``width`` neighbours in each of several passes."""

    passes: int
    line: Index
    place: Index
    step: int
    lines: int

    @staticmethod
    def of(code: ThreadCode, lines: int, extent: int, width: int) -> _Share:
        """Return this thread's share of ``lines`` lines of ``extent`` neighbouring elements.

        A thread reads ``width`` neighbours at a time.
        """
        across = extent // width
        step = code.threads // across
        line, place = divide(code, "line", code.thread, across, step)
        at = place * width
        return _Share(ceil(lines / step), line, code.bind("place", at), step, lines)

    def inside(self, line: Index) -> Any:
        """Return the condition that a line exists; None if all do."""
        return None if self.lines % self.step == 0 else line < self.lines


class Pixels:
    """The input pixels of a convolution as a matrix: a row for each result pixel (im2col)."""

    def __init__(
        self, spec: Contraction, tile: GemmTile, buffers: list[Any], row: Index, channel: Index
    ) -> None:
        """Make the operand of a block whose rows begin at ``row``, channels at ``channel``."""
        self.spec, self.tile, self.buffer = spec, tile, buffers[spec.data.buffer]
        self.row, self.channel = row, channel
        self.stride = tile.rows + PADDING
        self.width = WIDE if reads_wide(spec) else 1
        self.bordered = has_borders(spec.window)

    def prepare(self, code: ThreadCode) -> None:
        """Compute the offset at which each of this thread's rows begins to read."""
        spec, window = self.spec, self.spec.window
        self.share = share = _Share.of(code, self.tile.rows, self.tile.depth, self.width)
        self.held = code.registers("a_read", share.passes * self.width)
        self.base = code.registers("a_base", share.passes, "int32")
        if self.bordered:
            self.top = code.registers("a_top", share.passes, "int32")
            self.left = code.registers("a_left", share.passes, "int32")
        rows = rows_of(spec)
        with code.unrolled("p", share.passes) as p:
            row = self.row + p * share.step + share.line
            # Rows beyond the last read what the last one reads; nobody stores their results.
            row = code.bind("row", row if rows % self.tile.rows == 0 else tirx.min(row, rows - 1))
            image, y, x = pixel_of(code, spec, row)
            top = code.bind("top", y * window.strides[0] - window.pads[0])
            left = code.bind("left", x * window.strides[1] - window.pads[1])
            base = spec.data.offset + image * spec.data.strides[0] + self.channel
            base = base + top * spec.data.strides[1] + left * spec.data.strides[2]
            # In units of what is read at once, so that TVM sees that reads are aligned.
            code.store(self.base, p, tirx.floordiv(base, self.width), 1)
            if self.bordered:
                code.store(self.top, p, top, 1)
                code.store(self.left, p, left, 1)

    def fetch(self, code: ThreadCode, slab: Index) -> None:
        """Read some channels of one window tap for each row; zero beyond the image's borders."""
        spec, window, share = self.spec, self.spec.window, self.share
        depth = depth_of(spec)
        k = code.bind("k", slab * self.tile.depth + share.place)
        tap, channel = divide(code, "tap", k, spec.channels, depth // spec.channels)
        ky, kx = divide(code, "ky", tap, window.kernel[1], window.kernel[0])
        dy = code.bind("dy", ky * window.dilations[0])
        dx = code.bind("dx", kx * window.dilations[1])
        _, sh, sw, sc = spec.data.strides
        offset = code.bind("offset", dy * sh + dx * sw + channel * sc)
        within = k < depth if depth % self.tile.depth else None
        with code.unrolled("p", share.passes) as p:
            tests = [] if within is None else [within]
            if self.bordered:
                y = code.bind("y", load(self.top, p, 1) + dy)
                x = code.bind("x", load(self.left, p, 1) + dx)
                tests += [y >= 0, y < window.input[0], x >= 0, x < window.input[1]]
            if tests:
                with code.unrolled("j", self.width) as j:
                    code.store(self.held, p * self.width + j, constant(0.0, 1), 1)
            with code.branch(tirx.all(*tests) if tests else None):
                at = load(self.base, p, 1) * self.width + offset
                read = fetch_wide(code, "a", self.buffer, at, self.width)
                with code.unrolled("j", self.width) as j:
                    value = fetch(read, j)
                    if spec.prologue != ACC:
                        value = evaluate(code, spec.prologue, value)
                    code.store(self.held, p * self.width + j, value, 1)

    def keep(self, code: ThreadCode, shared: Any, origin: Index) -> None:
        """Write this thread's part transposed, so that rows are neighbours."""
        share = self.share
        with code.unrolled("p", share.passes) as p:
            line = p * share.step + share.line
            with code.branch(share.inside(line)), code.unrolled("j", self.width) as j:
                place = origin + (share.place + j) * self.stride + line
                code.store(shared, place, load(self.held, p * self.width + j, 1), 1)


class Columns:
    """A matrix whose columns are neighbours in memory: packed weights, or data."""

    def __init__(
        self,
        tile: GemmTile,
        depth: int,
        buffer: Any,
        origin: Index,
        step: int,
        *,
        wide: bool,
        columns: Index | None = None,
    ) -> None:
        """Element (k, c) lies at ``origin + k * step + c``, if ``c`` is below ``columns``."""
        self.tile, self.depth, self.buffer = tile, depth, buffer
        self.origin, self.step, self.columns = origin, step, columns
        self.stride = tile.columns + PADDING
        self.width = WIDE if wide else 1

    def prepare(self, code: ThreadCode) -> None:
        """Allocate registers for this thread's part."""
        self.share = _Share.of(code, self.tile.depth, self.tile.columns, self.width)
        self.held = code.registers("b_read", self.share.passes * self.width)

    def fetch(self, code: ThreadCode, slab: Index) -> None:
        """Read some neighbouring columns of some rows; zero beyond the matrix."""
        share = self.share
        with code.unrolled("p", share.passes) as p:
            line = p * share.step + share.line
            k = code.bind("k", slab * self.tile.depth + line)
            tests = [k < self.depth] if self.depth % self.tile.depth else []
            if self.columns is not None:
                tests.append(share.place < self.columns)
            inside = share.inside(line)
            tests += [] if inside is None else [inside]
            if tests:
                with code.unrolled("j", self.width) as j:
                    code.store(self.held, p * self.width + j, constant(0.0, 1), 1)
            with code.branch(tirx.all(*tests) if tests else None):
                at = code.bind("at", self.origin + k * self.step + share.place)
                read = fetch_wide(code, "b", self.buffer, at, self.width)
                with code.unrolled("j", self.width) as j:
                    code.store(self.held, p * self.width + j, fetch(read, j), 1)

    def keep(self, code: ThreadCode, shared: Any, origin: Index) -> None:
        """Write this thread's part in the order that it has in memory."""
        share = self.share
        with code.unrolled("p", share.passes) as p:
            line = p * share.step + share.line
            with code.branch(share.inside(line)):
                place = origin + line * self.stride + share.place
                code.store(shared, place, load(self.held, p * self.width, self.width), self.width)


def pixel_of(code: ThreadCode, spec: Contraction, row: Index) -> Pixel:
    """Return image, row and column of the result pixel of a row of the product."""
    return pixel_at(code, row, (spec.batch, *spec.window.output))
