"""Recurrent layers as one kernel: a tile is some rows of the batch, for which it runs all steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.blocking import most_pixels
from runtime_ext.cpu.kernels.tile_code import TileCode, tails
from runtime_ext.cpu.kernels.words import consecutive, spread
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, broadcast, constant, load, low_lanes, vector_type
from runtime_ext.kernels.expression import ACC, Access, Expr, emit, reads_nothing
from runtime_ext.kernels.spec import Recurrence
from tvm_ios.shapes.extent import ceil_div, is_open, symbols_in

#: Rows of a tile, at most: more leave too few tiles for the lanes.
_ROWS = 4
#: Bytes of a stack that a tile of several rows takes at most, and states that are kept of a row.
_STACK, _KEPT = 112 * 1024, 4
#: Multiply-adds of vectors in flight that hide their latency.
_IN_FLIGHT = 8
#: Elements of the states in a step of the innermost loop.
_UNROLLED = 4
#: The largest integer of eight bits.
_LARGEST = 255.0
_ACTIVATIONS: dict[str, Expr] = {
    "relu": ("max", ACC, ("const", 0.0)),
    "sigmoid": ("sigmoid", ACC),
    "tanh": ("tanh", ACC),
}


def recurrence(spec: Recurrence, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of all steps of a recurrent layer and its number of tiles."""
    code = TileCode(spec.buffers, isa, _types(spec), symbols_in(spec))
    # In registers are a row's sums, the weights that they share, and an element of a state.
    gates = spec.gate_count
    fitting = _STACK // (4 * _KEPT * (spec.hidden + spec.width))
    most = max(1, min(_ROWS, most_pixels(gates, isa), fitting))
    tiles = ceil_div(spec.batch, most)

    def rows(first: Index, numbers: Sequence[Index]) -> None:
        first = code.bind("row", first)
        _Writer(spec, isa, code, [code.bind("row", first + p) for p in numbers]).write()

    def open_rows(tile: Index) -> None:
        left = code.keep_index(tirx.min(most, code.extent(spec.batch) - tile * most))
        for tail in tails(left, most + 1):
            with code.branch(tail.condition):
                rows(tile * most, [tail.row(p) for p in range(tail.size)])

    def known_rows(tile: Index) -> None:
        # The first tiles have a row more.
        least, more = divmod(spec.batch, tiles)
        if more:
            with code.branch(tile < more):
                rows(tile * (least + 1), range(least + 1))
        with code.branch(tile >= more if more else None):
            rows(tile * least + more, range(least))

    with code.tiles(tiles) as tile:
        (open_rows if is_open(spec.batch) else known_rows)(tile)
    return code.kernel()


def _types(spec: Recurrence) -> list[str]:
    types = ["float32"] * len(spec.buffers)
    if spec.scale is not None:
        types[spec.weight] = "int8"
    return types


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a tile.

    ``number`` counts from the first that runs; ``gates`` and ``target`` are where each row's gates
    and its states after the step are; ``now`` is where the states before it are on the stack, and
    ``after`` where those after it go.
    """

    number: Index
    gates: Sequence[Index]
    target: Sequence[Index]
    now: Index
    after: Index


@dataclass(frozen=True, slots=True)
class _Elements:
    """Elements of the state of one row: ``lanes`` from element ``first``.

    ``sums`` are the products of the state with each gate's weights.
    """

    step: _Step
    row: int
    first: Index
    lanes: int
    sums: Sequence[Any]


class _Writer:
    """A writer of the code of a tile: all steps of these rows of the batch."""

    def __init__(self, spec: Recurrence, isa: Isa, code: TileCode, rows: Sequence[Index]) -> None:
        self._spec, self._code, self._rows = spec, code, rows
        self._width, self._registers, self._words = spec.width, isa.registers, isa.words
        # The stack has the states of all rows before a step, those after it, and then up to two
        # more tensors of that size: an LSTM's memories and its quantised states, or the update
        # gates and the reset states of a GRU.
        self._pitch = ceil_div(spec.hidden, spec.width) * spec.width
        self._size = len(rows) * self._pitch
        more = spec.scale is not None or (spec.kind == "gru" and not spec.late)
        self._stack = code.on_stack((_KEPT if more else _KEPT - 1) * self._size)
        self._memory = self._update = 2 * self._size
        self._quantised = self._reset = 3 * self._size
        if spec.scale is not None:
            (self._scale,) = code.accumulators(1, 1)

    def write(self) -> None:
        """Write the code of all steps."""
        code, spec = self._code, self._spec
        self._begin(spec.state, 0)
        if spec.scale is not None:
            self._fill(self._size, self._pitch)
            self._quantise(0)
        if spec.kind == "lstm":
            self._begin(spec.memory, self._memory)
        count = code.extent(spec.steps)
        gates, target = code.access(spec.gates), code.access(spec.target)
        with code.loop("t", 0, count) as number:
            time = code.bind("time", count - 1 - number if spec.reverse else number)
            now = code.bind("now", tirx.truncmod(number, 2) * self._size)
            after = code.bind("after", self._size - now)
            self._step(
                _Step(number, self._places(gates, time), self._places(target, time), now, after)
            )
        if spec.last is not None:
            last = code.access(spec.last)
            for p, at in enumerate(self._places(last, 0)):
                place = self._memory + p * self._pitch
                self._copy(self._stack, place, code.buffers[last.buffer], at)

    def _begin(self, access: Access | None, place: int) -> None:
        """Write the states or memories before the first step."""
        code = self._code
        for p in range(len(self._rows)):
            self._fill(place + p * self._pitch, self._pitch)
        if access is None:
            return
        given = code.access(access)
        for p, at in enumerate(self._places(given, 0)):
            self._copy(code.buffers[given.buffer], at, self._stack, place + p * self._pitch)

    def _fill(self, place: int, count: int) -> None:
        """Fill a part of the stack with zeros."""
        code = self._code

        def clear(at: Index, lanes: int) -> None:
            code.store(self._stack, at + place, constant(0.0, lanes), lanes)

        code.vectors(count, self._width, clear)

    def _quantise(self, place: Index) -> None:
        """Write a state rounded as by ONNX's DynamicQuantizeLinear, less the zero point.

        Elements behind a row's last are zeros, which are in any range.
        """
        code, width, of = self._code, self._width, self._code.arithmetic(1)
        assert len(self._rows) == 1, "rows that are quantised together are no tile"
        bounds = code.accumulators(2, width)
        for bound in bounds:
            code.store(bound, 0, constant(0.0, width), width)

        def clipped(value: Any, lanes: int) -> Any:
            least, most = (constant(number, lanes) for number in (0.0, _LARGEST))
            return tirx.max(tirx.min(value, most), least)

        def widen(at: Index, lanes: int) -> None:
            state = code.keep(load(self._stack, at + place, lanes), lanes)
            for bound, pick in zip(bounds, (tirx.min, tirx.max), strict=True):
                code.store(bound, 0, pick(load(bound, 0, lanes), state), lanes)

        code.vectors(self._pitch, width, widen)
        least, most = (
            of.keep(reduce(pick, (load(bound, lane, 1) for lane in range(width))))
            for bound, pick in zip(bounds, (tirx.min, tirx.max), strict=True)
        )
        span = of.keep(most - least)
        scale = tirx.Select(span > 0.0, span / of.constant(_LARGEST), of.constant(1.0))
        scale = of.keep(scale)
        code.store(self._scale, 0, scale, 1)
        origin = of.keep(clipped(tirx.nearbyint(of.constant(0.0) - least / scale), 1))

        def quantise(at: Index, lanes: int) -> None:
            by, zero = (broadcast(value, lanes) for value in (scale, origin))
            near = tirx.nearbyint(load(self._stack, at + place, lanes) / by) + zero
            inside = clipped(code.arithmetic(lanes).keep(near), lanes)
            code.store(self._stack, at + self._quantised, inside - zero, lanes)

        code.vectors(self._pitch, width, quantise)

    def _copy(self, source: Any, at: Index, target: Any, to: Index) -> None:
        """Copy all elements of a state."""
        code = self._code
        code.vectors(
            self._spec.hidden,
            self._width,
            lambda begin, n: code.store(target, begin + to, load(source, begin + at, n), n),
        )

    def _places(self, access: Access, time: Index) -> list[Index]:
        """Return where the elements of each row begin at a time."""
        steps, rows, _, _ = access.strides
        return [
            self._code.bind("place", access.offset + time * steps + row * rows)
            for row in self._rows
        ]

    def _step(self, step: _Step) -> None:
        """Write a step of all rows."""
        spec = self._spec
        if spec.kind == "gru" and not spec.late:
            # A state is reset before it is multiplied, so all of it has to be reset first.
            self._blocks(step, (0, 1), step.now, self._resetting)
            self._blocks(step, (2,), self._reset, self._early_gru)
            return
        source = step.now if spec.scale is None else self._quantised
        cells = {"lstm": self._lstm, "gru": self._late_gru, "rnn": self._rnn}
        self._blocks(step, range(spec.gate_count), source, cells[spec.kind])
        if spec.scale is not None:
            self._quantise(step.after)

    def _blocks(
        self, step: _Step, gates: Sequence[int], source: Index, cell: Callable[[_Elements], None]
    ) -> None:
        """Write these gates for all elements of a state, several blocks side by side.

        ``source`` is where the states are that the weights multiply.
        """
        code, width = self._code, self._width
        sums = len(gates) * len(self._rows)
        together = max(1, min(ceil_div(_IN_FLIGHT, sums), (self._registers - 3) // sums))
        whole, rest = divmod(self._spec.hidden, width)

        def blocks(first: Index, count: int, lanes: int) -> None:
            numbers = [code.bind("block", first + i) for i in range(count)]
            elements = [
                _Elements(step, p, code.bind("element", block * width), lanes, of_row)
                for block, rows in zip(
                    numbers, self._sums(step, gates, source, numbers), strict=True
                )
                for p, of_row in enumerate(rows)
            ]
            # Each operation of an activation waits for the one before.
            code.side_by_side(partial(cell, each) for each in elements)

        if whole:
            code.steps("block", whole, min(together, whole), lambda at, n: blocks(at, n, width))
        if rest:
            blocks(whole, 1, rest)

    def _sums(
        self, step: _Step, gates: Sequence[int], source: Index, blocks: Sequence[Index]
    ) -> list[list[list[Any]]]:
        """Write products with the weights; return the sums by block, row and gate."""
        code, spec, width = self._code, self._spec, self._width
        sums = [[code.accumulators(len(gates), width) for _ in self._rows] for _ in blocks]
        for total in (total for rows in sums for totals in rows for total in totals):
            code.store(total, 0, constant(0.0, width), width)
        weight, size = code.buffers[spec.weight], spec.gate_count * width
        starts = [code.bind("weights", block * (spec.hidden * size)) for block in blocks]
        states = [code.bind("state", source + p * self._pitch) for p in range(len(self._rows))]

        def read(p: int, k: Index, words: int) -> Any:
            return code.bind("h", load(self._stack, states[p] + k, words))

        def multiply(first: Index, count: int) -> None:
            state_of = consecutive(range(len(states)), first, count, self._words, read)
            for k, word_of in state_of:
                for start, rows in zip(starts, sums, strict=True):
                    places = [start + k * size + gate * width for gate in gates]
                    loaded = (load(weight, place, width) for place in places)
                    if spec.scale is not None:
                        loaded = (tirx.Cast(vector_type("float32", width), w) for w in loaded)
                    weights = [code.bind("w", w) for w in loaded]
                    for p, totals in enumerate(rows):
                        value = code.bind("h", spread([word_of(p)], width))
                        for total, w in zip(totals, weights, strict=True):
                            code.store(total, 0, load(total, 0, width) + value * w, width)

        # Before the first step states are zeros unless given.
        with code.branch(None if spec.state is not None else step.number > 0):
            code.steps("k", spec.hidden, _UNROLLED, multiply)
        return sums

    def _lstm(self, at: _Elements) -> None:
        """Write an LSTM's cell; its gates are input, output, forget, candidate."""
        f, g, h = self._spec.activations
        code, memory = self._code, self._kept(at, self._memory)
        before = self._keep(at, load(self._stack, memory, at.lanes))
        taken = self._activated(f, at, self._peeped(at, 0, self._gate(at, 0), before))
        kept = self._activated(f, at, self._peeped(at, 2, self._gate(at, 2), before))
        candidate = self._activated(g, at, self._gate(at, 3))
        after = self._keep(at, kept * before + taken * candidate)
        code.store(self._stack, memory, after, at.lanes)
        out = self._activated(f, at, self._peeped(at, 1, self._gate(at, 1), after))
        self._result(at, out * self._activated(h, at, after))

    def _peeped(self, at: _Elements, gate: int, value: Any, memory: Any) -> Any:
        """Return a gate's sum with the memory's contribution, if there are peepholes."""
        if self._spec.peepholes is None:
            return value
        return value + self._parameter(at, self._spec.peepholes, gate) * memory

    def _late_gru(self, at: _Elements) -> None:
        """Write the cell of a GRU that resets the product; gates are update, reset, candidate."""
        spec, (f, g) = self._spec, self._spec.activations
        product = self._sum(at, 2)
        if spec.bias is not None:
            product = product + self._parameter(at, spec.bias, 2 * spec.gate_count - 1)
        reset = self._activated(f, at, self._gate(at, 1))
        candidate = self._activated(g, at, self._read(at, 2) + reset * product)
        self._updated(at, self._activated(f, at, self._gate(at, 0)), candidate)

    def _resetting(self, at: _Elements) -> None:
        """Write the update gate and the reset state of a GRU."""
        f = self._spec.activations[0]
        code, lanes = self._code, at.lanes
        update = self._activated(f, at, self._gate(at, 0))
        code.store(self._stack, self._kept(at, self._update), update, lanes)
        state = load(self._stack, self._kept(at, at.step.now), lanes)
        reset = self._activated(f, at, self._gate(at, 1)) * state
        code.store(self._stack, self._kept(at, self._reset), reset, lanes)

    def _early_gru(self, at: _Elements) -> None:
        """Write the rest of the cell of a GRU that resets the state."""
        g = self._spec.activations[1]
        candidate = self._activated(g, at, self._read(at, 2) + self._sum(at, 0))
        update = self._keep(at, load(self._stack, self._kept(at, self._update), at.lanes))
        self._updated(at, update, candidate)

    def _updated(self, at: _Elements, update: Any, candidate: Any) -> None:
        state = load(self._stack, self._kept(at, at.step.now), at.lanes)
        self._result(at, (constant(1.0, at.lanes) - update) * candidate + update * state)

    def _rnn(self, at: _Elements) -> None:
        self._result(at, self._activated(self._spec.activations[0], at, self._gate(at, 0)))

    def _gate(self, at: _Elements, gate: int) -> Any:
        """Return what the input and the state contribute to a gate, with its bias."""
        value, spec = self._read(at, gate) + self._sum(at, gate), self._spec
        if spec.scale is None or spec.bias is None:
            return value
        return value + self._parameter(at, spec.bias, gate)

    def _sum(self, at: _Elements, gate: int) -> Any:
        """Return the product of the state with a gate's weights."""
        total = low_lanes(load(at.sums[gate], 0, self._width), at.lanes, self._width)
        if self._spec.scale is None:
            return total
        scale = self._parameter(at, self._spec.scale, gate)
        return total * (broadcast(load(self._scale, 0, 1), at.lanes) * scale)

    def _parameter(self, at: _Elements, buffer: int, gate: int) -> Any:
        """Return the elements of a buffer that has a number for each element of each gate."""
        return load(self._code.buffers[buffer], gate * self._spec.hidden + at.first, at.lanes)

    def _read(self, at: _Elements, gate: int) -> Any:
        """Return what the input contributes to a gate."""
        place = at.step.gates[at.row] + gate * self._spec.hidden + at.first
        return load(self._code.buffers[self._spec.gates.buffer], place, at.lanes)

    def _kept(self, at: _Elements, place: Index) -> Index:
        """Return where elements are on the stack, of states that begin at a place."""
        return place + at.row * self._pitch + at.first

    def _result(self, at: _Elements, state: Any) -> None:
        """Store the state after a step."""
        code, state = self._code, self._keep(at, state)
        code.store(self._stack, self._kept(at, at.step.after), state, at.lanes)
        target = code.buffers[self._spec.target.buffer]
        code.store(target, at.step.target[at.row] + at.first, state, at.lanes)

    def _activated(self, name: str, at: _Elements, value: Any) -> Any:
        arithmetic = self._code.arithmetic(at.lanes)
        return emit(_ACTIVATIONS[name], self._keep(at, value), reads_nothing, arithmetic)

    def _keep(self, at: _Elements, value: Any) -> Any:
        return self._code.keep(value, at.lanes)
