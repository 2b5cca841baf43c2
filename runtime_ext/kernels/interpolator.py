"""Interpolate images, for any device."""

from __future__ import annotations

from math import prod
from typing import Any, Generic, TypeVar

from tvm import tirx

from runtime_ext.kernels.code import Code, Index, broadcast, constant, load, number
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Interpolation, Positions, Resampling, Statement
from runtime_ext.kernels.statements import activate, store_statement
from tvm_ios.shapes.extent import is_open

_Spec = TypeVar("_Spec", Interpolation, Resampling)


class _Resizer(Generic[_Spec]):
    """A writer of resized images; devices override how to read and store."""

    def __init__(self, spec: _Spec, buffers: list[Any], code: Code, image: Index) -> None:
        self.spec, self.buffers, self.code = spec, buffers, code
        self.data = code.access(spec.data)
        self.image = image

    def pixel(self, at: Index, channel: Index, lanes: int) -> Any:
        """Return some channels of the input pixel at an offset."""
        sn, _, _, sc = self.data.strides
        place = self.data.offset + self.image * sn + channel * sc + at
        value = self.read(place, sc, lanes)
        if self.spec.prologue != ACC:
            value = activate(self.code, self.spec.prologue, value, lanes)
        return value

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


class Interpolator(_Resizer[Interpolation]):
    """A writer of the results of one input pixel, by whole factors."""

    def __init__(
        self,
        spec: Interpolation,
        buffers: list[Any],
        code: Code,
        image: Index,
        row: Index,
        column: Index,
    ) -> None:
        super().__init__(spec, buffers, code, image)
        self.row, self.column = row, column
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
        lines: dict[int, list[Any]] = {}
        for y, row in self.rows.items():
            pixels: dict[int, Any] = {}
            for x, column in self.columns.items():
                pixels[x] = code.bind("x", self.pixel(row + column, channel, lanes))
            lines[y] = [self._between(pixels, tap, lanes) for tap in spec.columns]
        factors = len(spec.rows), len(spec.columns)
        for r, tap in enumerate(spec.rows):
            for s in range(factors[1]):
                value = self._between({y: line[s] for y, line in lines.items()}, tap, lanes)
                grid = (self.image, self.row * factors[0] + r, self.column * factors[1] + s)
                for statement in spec.statements:
                    self.store(statement, grid, channel, value, lanes)

    def _between(self, values: dict[int, Any], tap: tuple[int, float], lanes: int) -> Any:
        first, weight = tap
        if weight == 0.0:
            return values[first]
        value = values[first] * constant(1.0 - weight, lanes)
        value = value + values[first + 1] * constant(weight, lanes)
        return self.code.bind("v", value)


def _read(first: int, weight: float) -> tuple[int, ...]:
    return (first,) if weight == 0.0 else (first, first + 1)


#: The offset of an input along an axis, and its weight; the only one has none.
_Neighbour = tuple[Index, Any]


class Resampler(_Resizer[Resampling]):
    """A writer of the results of one row, of any size."""

    def __init__(
        self, spec: Resampling, buffers: list[Any], code: Code, image: Index, row: Index
    ) -> None:
        super().__init__(spec, buffers, code, image)
        self.row = row
        self.rows = self._neighbours("y", row, spec.rows, spec.inputs[0], self.data.strides[1])

    def _neighbours(
        self, name: str, at: Index, positions: Positions, inputs: int, stride: Index
    ) -> list[_Neighbour]:
        """Return the inputs that a result along an axis lies between."""
        code = self.code
        step, offset, divisor = map(
            code.extent, (positions.step, positions.offset, positions.divisor)
        )
        if is_open(positions.divisor):
            divisor = code.bind("divisor", tirx.max(divisor, 1))
        # Products of two extents need 64 bits. With a divisor more nothing is negative.
        scaled = code.bind(name, tirx.Cast("int64", at) * step + (offset + divisor))
        after = code.bind(f"{name}_after", tirx.truncdiv(scaled, divisor))

        def place(one: Index) -> Index:
            inside = tirx.max(tirx.min(one, code.extent(inputs) - 1), 0)
            return code.bind(f"{name}_at", tirx.Cast(code.index, inside) * stride)

        if positions.is_rounded:
            return [(place(after - 1), None)]
        weight = code.bind(f"{name}_weight", number(scaled - after * divisor) / number(divisor))
        return [(place(after - 1), 1.0 - weight), (place(after), weight)]

    def columns(self, column: Index) -> list[_Neighbour]:
        """Return the inputs that a result of the row lies between along the row."""
        spec = self.spec
        return self._neighbours("x", column, spec.columns, spec.inputs[1], self.data.strides[2])

    def channels(
        self, columns: list[_Neighbour], column: Index, channel: Index, lanes: int
    ) -> None:
        """Write one vector of channels of the result at a column."""
        total: Any = None
        for y, of_row in self.rows:
            for x, of_column in columns:
                value = self.pixel(y + x, channel, lanes)
                weights = [weight for weight in (of_row, of_column) if weight is not None]
                if weights:
                    value = value * broadcast(prod(weights), lanes)
                total = value if total is None else total + value
        result = self.code.bind("v", total)
        for statement in self.spec.statements:
            self.store(statement, (self.image, self.row, column), channel, result, lanes)
