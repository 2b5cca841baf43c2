"""Softmax and layer normalisation over the innermost axis: a few passes over each row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.cpu.kernels.vector_unit import VectorUnit
from runtime_ext.kernels.code import LOWEST, Index, constant, load
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Normalisation
from runtime_ext.kernels.statements import activate, store_statement
from runtime_ext.kernels.transcendental import exp

#: Elements a tile: long against a call, short enough to balance lanes.
_ELEMENTS = 2048
#: Vectors that are reduced side by side, to hide latency.
_VECTORS = 4

#: What becomes of a vector of so many lanes.
Change = Callable[[Any, int], Any]


def normalisation(spec: Normalisation, unit: VectorUnit) -> tuple[Any, int]:
    """The PrimFunc of a normalisation and its number of tiles (runs of rows)."""
    code = TileCode(spec.buffers)
    strip = max(1, min(spec.grid[2], _ELEMENTS // spec.count))
    with code.pixels(spec.grid, strip) as grid:
        _Row(spec, unit, code, grid).write()
    return code.kernel()


class _Row:
    """One row: what all its elements come to, then each element."""

    def __init__(
        self,
        spec: Normalisation,
        unit: VectorUnit,
        code: TileCode,
        grid: tuple[Index, Index, Index],
    ) -> None:
        self.spec, self.lanes, self.code, self.grid = spec, unit.lanes, code, grid
        self.buffers = code.buffers
        strides = zip(grid, spec.data.strides, strict=False)
        origin = spec.data.offset + sum(index * stride for index, stride in strides)
        self.origin = code.bind("origin", origin)

    def write(self) -> None:
        """All elements of the row."""
        change = self._softmax() if self.spec.kind == "softmax" else self._layer_norm()

        def store(at: Index, _: int, lanes: int) -> None:
            value = change(self._read(at, lanes), lanes)
            for statement in self.spec.statements:
                store_statement(self.code, self.buffers, statement, self.grid, at, value, lanes)

        self._each(store)

    def _softmax(self) -> Change:
        """``exp(x - largest) / sum``; the exponentials are computed twice and never stored."""
        largest = self._reduce(tirx.max, LOWEST, lambda x, _: x)

        def exponential(x: Any, lanes: int) -> Any:
            code = self.code
            lowered = code.keep(x - self._repeat(largest, lanes), lanes)
            value = exp(lowered, lambda c: constant(c, lanes), lambda v: code.keep(v, lanes))
            return code.keep(value, lanes)

        total = self._reduce(_add, 0.0, exponential)
        factor = self._number(constant(1.0, 1) / load(total, 0, 1))
        return lambda x, lanes: exponential(x, lanes) * self._repeat(factor, lanes)

    def _layer_norm(self) -> Change:
        """``(x - mean) / sqrt(variance + epsilon)``, the variance from what is centred."""
        count = constant(float(self.spec.count), 1)
        mean = self._number(load(self._reduce(_add, 0.0, lambda x, _: x), 0, 1) / count)

        def centred(x: Any, lanes: int) -> Any:
            return self.code.keep(x - self._repeat(mean, lanes), lanes)

        def squared(x: Any, lanes: int) -> Any:
            value = centred(x, lanes)
            return value * value

        variance = load(self._reduce(_add, 0.0, squared), 0, 1) / count
        root = tirx.sqrt(variance + constant(self.spec.epsilon, 1))
        factor = self._number(constant(1.0, 1) / root)
        return lambda x, lanes: centred(x, lanes) * self._repeat(factor, lanes)

    def _reduce(self, combine: Callable[[Any, Any], Any], neutral: float, of: Change) -> Any:
        """A local buffer with what the row comes to; sums are always in the same order."""
        code, lanes = self.code, self.lanes
        sums = code.accumulators(min(_VECTORS, max(1, self.spec.count // lanes)), lanes)
        remainder = self.spec.count % lanes or 1
        (partial,) = code.accumulators(1, remainder)
        for buffer, width in [*((buffer, lanes) for buffer in sums), (partial, remainder)]:
            code.store(buffer, 0, constant(neutral, width), width)

        def gather(at: Index, vector: int, width: int) -> None:
            buffer = sums[vector] if width == lanes else partial
            value = of(self._read(at, width), width)
            code.store(buffer, 0, combine(load(buffer, 0, width), value), width)

        self._each(gather)
        for other in sums[1:]:
            both = combine(load(sums[0], 0, lanes), load(other, 0, lanes))
            code.store(sums[0], 0, both, lanes)
        parts = [load(sums[0], i, 1) for i in range(lanes)]
        parts += [load(partial, i, 1) for i in range(self.spec.count % lanes)]
        while len(parts) > 1:
            pairs = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = pairs + ([parts[-1]] if len(parts) % 2 else [])
        return self._number(parts[0])

    def _each(self, use: Callable[[Index, int, int], None]) -> None:
        """Every vector of the row: where it begins, its turn among those in flight, its width."""
        count, lanes = self.spec.count, self.lanes
        block = _VECTORS * lanes
        if count >= block:
            with self.code.loop("c", 0, count // block) as c:
                for vector in range(_VECTORS):
                    use(c * block + vector * lanes, vector, lanes)
        done = count // block * block
        for vector, at in enumerate(range(done, count, lanes)):
            use(at, vector, min(lanes, count - at))

    def _read(self, at: Index, lanes: int) -> Any:
        stride = self.spec.data.strides[3]
        source = self.buffers[self.spec.data.buffer]
        value = self.code.keep(load(source, self.origin + at * stride, lanes, stride), lanes)
        if self.spec.prologue != ACC:
            value = activate(self.code, self.spec.prologue, value, lanes)
        return value

    def _number(self, value: Any) -> Any:
        """A local buffer that holds a number."""
        (buffer,) = self.code.accumulators(1, 1)
        self.code.store(buffer, 0, value, 1)
        return buffer

    def _repeat(self, number: Any, lanes: int) -> Any:
        return load(number, 0, lanes, 0)


def _add(a: Any, b: Any) -> Any:
    return a + b
