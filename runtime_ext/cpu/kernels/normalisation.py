"""Softmax and layer normalisation over the innermost axis: a few passes over each row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import (
    LOWEST,
    EncodedBuffer,
    Index,
    constant,
    equal,
    first_lanes,
    integer,
    load,
    number,
)
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Normalisation
from runtime_ext.kernels.statements import (
    activate,
    element_offset,
    is_in_order,
    is_padded,
    reads_in_order,
    store_statement,
)
from runtime_ext.kernels.transcendental import exp
from tvm_ios.shapes.extent import hint_of, is_open, symbols_in

#: Elements a tile: long against a call, short enough to balance lanes.
_ELEMENTS = 2048
#: Vectors that are reduced side by side, to hide latency.
_VECTORS = 4

#: Returns a vector of a number of lanes, from an element of the row on.
Value = Callable[[Index, int], Any]


def normalisation(spec: Normalisation, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of a normalisation and its number of tiles (runs of rows)."""
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    strip = max(1, _ELEMENTS // hint_of(spec.count))
    if not is_open(spec.grid[2]):
        strip = min(spec.grid[2], strip)
    with code.pixels(spec.grid, strip) as grid:
        row_writer(spec)(spec, isa, code, grid).write()
    return code.kernel()


def row_writer(spec: Normalisation) -> type[RowWriter]:
    """Return the writer for rows of a normalisation."""
    return _OpenRow if is_open(spec.count) else RowWriter


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
        self.data = code.access(spec.data)
        origin = element_offset(self.data, grid, 0) + read_shift
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
            if self.code.stored is None:
                self.code.store(*self._place(at), value, lanes)
            else:
                self.code.store_first(self.code.stored, *self._place(at), value, lanes)
            return value

        return kept

    def _stored(self, at: Index, lanes: int) -> Any:
        return load(*self._place(at), lanes)

    def _place(self, at: Index) -> tuple[Any, Index]:
        target = self.code.access(self.spec.statements[0].target)
        where = element_offset(target, self.grid, at) + self._shift
        return self.buffers[target.buffer], where

    def _layer_norm(self) -> Value:
        """Return the writer of ``(x - mean) / sqrt(variance + epsilon)``, from centred values."""
        count = number(self.code.extent(self.spec.count))
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
        stride = self.data.strides[3]
        source = self.buffers[self.data.buffer]
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


class _OpenRow(RowWriter):
    """A writer of the code of one row of any number of elements, by whole vectors.

    Elements that the last vector reads behind the row are not reduced, nor stored unless rows lie
    in whole cache lines. Where elements are not adjacent in memory, the last ones are written one
    by one.
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
        super().__init__(spec, isa, code, grid, read_shift, stored_shift)
        read = (reads_in_order(statement.value) for statement in spec.statements)
        self._is_in_order = is_in_order(spec.data) and all(read)
        targets = (statement.target for statement in spec.statements)
        self._is_padded = all(is_padded(t, spec.grid, spec.buffers[t.buffer]) for t in targets)
        #: The elements of the vector that is written, if it is the last one.
        self._rest: Index | None = None

    @property
    def _has_place(self) -> bool:
        first = self.spec.statements[0]
        is_encoded = isinstance(self.buffers[first.target.buffer], EncodedBuffer)
        return not is_encoded and first.begin == 0 and is_in_order(first.target)

    def _reduce(self, combine: Callable[[Any, Any], Any], neutral: float, of: Value) -> Any:
        code, lanes = self.code, self.lanes
        sums = code.accumulators(_VECTORS, lanes)
        (single,) = code.accumulators(1, 1)
        for buffer, width in [*((buffer, lanes) for buffer in sums), (single, 1)]:
            code.store(buffer, 0, constant(neutral, width), width)

        def gather(at: Index, vector: int, width: int) -> None:
            value, buffer = of(at, width), sums[vector] if width == lanes else single
            if self._rest is not None:
                value = tirx.Select(first_lanes(self._rest, width), value, constant(neutral, width))
            code.store(buffer, 0, combine(load(buffer, 0, width), value), width)

        self._each(gather)
        parts = [load(buffer, 0, lanes) for buffer in sums]
        while len(parts) > 1:
            parts = [combine(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        total = code.keep(parts[0], lanes)
        while lanes > 1:
            lanes //= 2
            halves = (range(begin, begin + lanes) for begin in (0, lanes))
            low, high = (tirx.Shuffle([total], [integer(i) for i in half]) for half in halves)
            total = code.keep(combine(low, high), lanes)
        return self._number(combine(total, load(single, 0, 1)))

    def _each(self, use: Callable[[Index, int, int], None]) -> None:
        code, lanes, count = self.code, self.lanes, self.spec.count
        if not self._is_in_order:
            code.steps("c", code.extent(count), lanes, lambda at, width: use(at, 0, width))
            return
        behind = (count - 1) // lanes
        blocks = behind // _VECTORS
        with code.loop("c", 0, code.extent(blocks)) as c:
            code.side_by_side(
                partial(use, (c * _VECTORS + vector) * lanes, vector, lanes)
                for vector in range(_VECTORS)
            )
        rest, done = code.extent(count - behind * lanes), code.extent(blocks * _VECTORS * lanes)

        def at_end(vector: int, *, is_last: bool) -> None:
            self._rest = rest if is_last else None
            code.stored = None if self._is_padded else self._rest
            use(done + vector * lanes, vector, lanes)
            code.stored = self._rest = None

        for vectors in range(1, _VECTORS + 1):
            with code.branch(equal(code.extent(behind - blocks * _VECTORS), vectors - 1)):
                code.side_by_side(
                    partial(at_end, vector, is_last=vector == vectors - 1)
                    for vector in range(vectors)
                )


def _add(a: Any, b: Any) -> Any:
    return a + b
