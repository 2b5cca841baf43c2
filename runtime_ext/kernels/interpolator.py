"""Interpolate images enlarged by whole factors, for any device."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from runtime_ext.kernels.code import Code, Index, constant, load
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Interpolation, Statement
from runtime_ext.kernels.statements import activate, store_statement


class Interpolator:
    """A writer of the results of one input pixel; devices override how to read and store."""

    def __init__(
        self,
        spec: Interpolation,
        buffers: list[Any],
        code: Code,
        image: Index,
        row: Index,
        column: Index,
    ) -> None:
        self.spec, self.buffers, self.code = spec, buffers, code
        self.data = code.access(spec.data)
        self.image, self.row, self.column = image, row, column
        _, sh, sw, _ = self.data.strides
        self.rows = self._offsets("y", row, spec.rows, spec.pixels[0], sh)
        self.columns = self._offsets("x", column, spec.columns, spec.pixels[1], sw)

    def _offsets(
        self, name: str, at: Index, taps: tuple[tuple[int, float], ...], extent: int, stride: int
    ) -> dict[int, Index]:
        """Return the offset of each neighbour with a weight, clamped to the border."""
        offsets: dict[int, Index] = {}
        for neighbour in sorted({i for first, weight in taps for i in _read(first, weight)}):
            place = tirx.max(at + neighbour, 0) if neighbour < 0 else at + neighbour
            place = tirx.min(place, self.code.extent(extent) - 1) if neighbour > 0 else place
            offsets[neighbour] = self.code.bind(f"{name}_at", place * stride)
        return offsets

    def channels(self, channel: Index, lanes: int) -> None:
        """Write all results at one input pixel, for one vector of channels."""
        spec, code = self.spec, self.code
        sn, _, _, sc = self.data.strides
        origin = self.data.offset + self.image * sn + channel * sc
        lines: dict[int, list[Any]] = {}
        for y, row in self.rows.items():
            pixels: dict[int, Any] = {}
            for x, column in self.columns.items():
                at = origin + row + column
                value = self.read(at, sc, lanes)
                if spec.prologue != ACC:
                    value = activate(code, spec.prologue, value, lanes)
                pixels[x] = code.bind("x", value)
            lines[y] = [self._between(pixels, tap, lanes) for tap in spec.columns]
        factors = len(spec.rows), len(spec.columns)
        for r, tap in enumerate(spec.rows):
            for s in range(factors[1]):
                value = self._between({y: line[s] for y, line in lines.items()}, tap, lanes)
                grid = (self.image, self.row * factors[0] + r, self.column * factors[1] + s)
                for statement in spec.statements:
                    self.store(statement, grid, channel, value, lanes)

    def read(self, at: Index, stride: int, lanes: int) -> Any:
        """Load some channels of an input pixel."""
        return load(self.buffers[self.data.buffer], at, lanes, stride)

    def store(
        self,
        statement: Statement,
        grid: tuple[Index, Index, Index],
        channel: Index,
        value: Any,
        lanes: int,
    ) -> None:
        """Store some channels of a result by a statement."""
        store_statement(self.code, self.buffers, statement, grid, channel, value, lanes)

    def _between(self, values: dict[int, Any], tap: tuple[int, float], lanes: int) -> Any:
        first, weight = tap
        if weight == 0.0:
            return values[first]
        value = values[first] * constant(1.0 - weight, lanes)
        value = value + values[first + 1] * constant(weight, lanes)
        return self.code.bind("v", value)


def _read(first: int, weight: float) -> tuple[int, ...]:
    return (first,) if weight == 0.0 else (first, first + 1)
