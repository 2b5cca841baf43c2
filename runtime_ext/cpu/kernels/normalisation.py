"""Softmax and layer normalisation over the innermost axis: a few passes over each row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import LOWEST, EncodedBuffer, Index, constant, load
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Normalisation
from runtime_ext.kernels.statements import activate, element_offset, store_statement
from runtime_ext.kernels.transcendental import exp

#: Elements a tile: long against a call, short enough to balance lanes.
_ELEMENTS = 2048
#: Vectors that are reduced side by side, to hide latency.
_VECTORS = 4

#: Returns a vector of a number of lanes, from an element of the row on.
Value = Callable[[Index, int], Any]


def normalisation(spec: Normalisation, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of a normalisation and its number of tiles (runs of rows)."""
    code = TileCode(spec.buffers, isa)
    strip = max(1, min(spec.grid[2], _ELEMENTS // spec.count))
    with code.pixels(spec.grid, strip) as grid:
        RowWriter(spec, isa, code, grid).write()
    return code.kernel()


class RowWriter:
    """A writer of the code of one row: reductions over its elements, then each element.

    ``read_shift`` is added to the offset of the row that is read, ``stored_shift`` to that of the
    one stored.
    """

    def __init__(
        self,
        spec: Normalisation,
        isa: Isa,
        code: TileCode,
        grid: tuple[Index, Index, Index],
        read_shift: Index = 0,
        stored_shift: Index = 0,
    ) -> None:
        self.spec, self.lanes, self.code, self.grid = spec, isa.lanes, code, grid
        self.buffers, self._shift = code.buffers, stored_shift
        origin = element_offset(spec.data, grid, 0) + read_shift
        self.origin = code.bind("origin", origin)

    def write(self) -> None:
        """Write all elements of the row."""
        value_of = self._softmax() if self.spec.kind == "softmax" else self._layer_norm()

        def store(at: Index, _: int, lanes: int) -> None:
            # Keep the value: the first statement may overwrite its operands.
            value = self.code.keep(value_of(at, lanes), lanes)
            for statement in self.spec.statements:
                store_statement(
                    self.code, self.buffers, statement, self.grid, at, value, lanes, self._shift
                )

        self._each(store)

    def _softmax(self) -> Value:
        """Return the writer of ``exp(x - largest) / sum``.

        Exponentials are kept in the result's memory if possible, otherwise computed twice.
        """
        largest = self._reduce(tirx.max, LOWEST, self._read)

        def exponential(at: Index, lanes: int) -> Any:
            code = self.code
            lowered = code.keep(self._read(at, lanes) - self._repeat(largest, lanes), lanes)
            value = exp(lowered, code.arithmetic(lanes))
            return code.keep(value, lanes)

        total = self._reduce(_add, 0.0, self._kept(exponential))
        factor = self._number(constant(1.0, 1) / load(total, 0, 1))
        again = self._stored if self._has_place else exponential
        return lambda at, lanes: again(at, lanes) * self._repeat(factor, lanes)

    @property
    def _has_place(self) -> bool:
        """Return whether the result has room for all elements of the row, as floats."""
        first = self.spec.statements[0]
        if isinstance(self.buffers[first.target.buffer], EncodedBuffer):
            return False
        return (first.begin, first.count, first.target.strides[3]) == (0, self.spec.count, 1)

    def _kept(self, value_of: Value) -> Value:
        """Return ``value_of``, which also stores its values if the row has a place."""
        if not self._has_place:
            return value_of

        def kept(at: Index, lanes: int) -> Any:
            value = value_of(at, lanes)
            self.code.store(*self._place(at), value, lanes)
            return value

        return kept

    def _stored(self, at: Index, lanes: int) -> Any:
        return load(*self._place(at), lanes)

    def _place(self, at: Index) -> tuple[Any, Index]:
        target = self.spec.statements[0].target
        where = element_offset(target, self.grid, at) + self._shift
        return self.buffers[target.buffer], where

    def _layer_norm(self) -> Value:
        """Return the writer of ``(x - mean) / sqrt(variance + epsilon)``, from centred values."""
        count = constant(float(self.spec.count), 1)
        mean = self._number(load(self._reduce(_add, 0.0, self._read), 0, 1) / count)

        def centred(at: Index, lanes: int) -> Any:
            return self.code.keep(self._read(at, lanes) - self._repeat(mean, lanes), lanes)

        def squared(at: Index, lanes: int) -> Any:
            value = centred(at, lanes)
            return value * value

        variance = load(self._reduce(_add, 0.0, squared), 0, 1) / count
        root = tirx.sqrt(variance + constant(self.spec.epsilon, 1))
        factor = self._number(constant(1.0, 1) / root)
        return lambda at, lanes: centred(at, lanes) * self._repeat(factor, lanes)

    def _reduce(self, combine: Callable[[Any, Any], Any], neutral: float, of: Value) -> Any:
        """Reduce the row to a local buffer; sums are always in the same order."""
        code, lanes = self.code, self.lanes
        sums = code.accumulators(min(_VECTORS, max(1, self.spec.count // lanes)), lanes)
        remainder = self.spec.count % lanes or 1
        (rest,) = code.accumulators(1, remainder)
        for buffer, width in [*((buffer, lanes) for buffer in sums), (rest, remainder)]:
            code.store(buffer, 0, constant(neutral, width), width)

        def gather(at: Index, vector: int, width: int) -> None:
            buffer = sums[vector] if width == lanes else rest
            value = of(at, width)
            code.store(buffer, 0, combine(load(buffer, 0, width), value), width)

        self._each(gather)
        for other in sums[1:]:
            both = combine(load(sums[0], 0, lanes), load(other, 0, lanes))
            code.store(sums[0], 0, both, lanes)
        parts = [load(sums[0], i, 1) for i in range(lanes)]
        parts += [load(rest, i, 1) for i in range(self.spec.count % lanes)]
        while len(parts) > 1:
            pairs = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = pairs + ([parts[-1]] if len(parts) % 2 else [])
        return self._number(parts[0])

    def _each(self, use: Callable[[Index, int, int], None]) -> None:
        """Call ``use`` for each vector of the row: its begin, its accumulator, its width."""
        count, lanes = self.spec.count, self.lanes
        block = _VECTORS * lanes
        if count >= block:
            with self.code.loop("c", 0, count // block) as c:
                self.code.side_by_side(
                    partial(use, c * block + vector * lanes, vector, lanes)
                    for vector in range(_VECTORS)
                )
        done = count // block * block
        self.code.side_by_side(
            partial(use, at, vector, min(lanes, count - at))
            for vector, at in enumerate(range(done, count, lanes))
        )

    def _read(self, at: Index, lanes: int) -> Any:
        stride = self.spec.data.strides[3]
        source = self.buffers[self.spec.data.buffer]
        value = self.code.keep(load(source, self.origin + at * stride, lanes, stride), lanes)
        if self.spec.prologue != ACC:
            value = activate(self.code, self.spec.prologue, value, lanes)
        return value

    def _number(self, value: Any) -> Any:
        """Return a local buffer that holds a number."""
        (buffer,) = self.code.accumulators(1, 1)
        self.code.store(buffer, 0, value, 1)
        return buffer

    def _repeat(self, number: Any, lanes: int) -> Any:
        return load(number, 0, lanes, 0)


def _add(a: Any, b: Any) -> Any:
    return a + b
