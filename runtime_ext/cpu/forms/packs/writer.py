"""Contractions of packs of channels: register tiles as for floats, more products an instruction."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tirx

from runtime_ext.cpu.kernels.contraction import ContractionWriter
from runtime_ext.cpu.kernels.open_contraction import OpenMatrixWriter
from runtime_ext.cpu.kernels.open_convolution import OpenRowsWriter
from runtime_ext.cpu.kernels.words import WordOf, spread
from runtime_ext.isa.isa import Products
from runtime_ext.kernels.code import (
    Index,
    broadcast,
    lanes_of,
    load,
    shuffle,
    vector_type,
)


class PackWriter(ContractionWriter):
    """A writer of contractions whose ``channels`` are packs, each a word of the data.

    A register of sums is of one pixel, or of several that each have a share of its channels.
    """

    products: Products
    #: The type of sums.
    sums = "float32"
    #: The buffer of what the sums begin with; None for zeros.
    starts: Any = None

    @property
    def elements(self) -> int:
        """The channels of a pack."""
        return self.products.channels

    @property
    def _shares(self) -> int:
        """The output channels of a pixel in a register of sums."""
        return self.isa.lanes // self.products.pixels

    @property
    def _registers(self) -> int:
        """The registers of sums of as many pixels as one has, for a block."""
        return self.spec.blocking.vectors * self.products.pixels

    def _word(self, count: int = 1) -> str:
        data = self.buffers[self.spec.data.buffer]
        bits = tvm.DataType(str(data.ty.dtype)).bits * self.elements
        return vector_type(f"int{bits}", count)

    def first_sums(self, block: Index, pixels: int) -> list[Any]:
        """Return the buffers of a register tile's sums, with what these begin with."""
        code, lanes, shares = self.code, self.isa.lanes, self._shares
        groups = -(-pixels // self.products.pixels)
        sums = code.accumulators(groups * self._registers, lanes, self.sums)
        for number, total in enumerate(sums):
            first = broadcast(tirx.const(0, self.sums), lanes)
            if self.starts is not None:
                register = block * self._registers + number % self._registers
                first = load(self.starts, register * shares, shares)
                first = shuffle([first] * self.products.pixels, range(lanes))
            code.store(total, 0, first, lanes)
        return sums

    def in_floats(self, sums: list[Any], pixels: int) -> list[Any]:
        """Return the buffers of the sums of pixels in float32, each register of one pixel."""
        code, lanes = self.code, self.isa.lanes
        shares, together = self._shares, self.products.pixels
        if self.sums == "float32" and together == 1:
            return sums
        vectors = self.spec.blocking.vectors
        results = code.accumulators(pixels * vectors, lanes)
        for number, result in enumerate(results):
            pixel, v = divmod(number, vectors)
            group, nth = divmod(pixel, together)
            first = group * self._registers + v * together
            registers = [load(total, 0, lanes) for total in sums[first : first + together]]
            value = registers[0]
            if together > 1:
                places = (r * lanes + nth * shares for r in range(together))
                value = shuffle(registers, [at + n for at in places for n in range(shares)])
            value = tirx.Cast(vector_type("float32", lanes), value)
            code.store(result, 0, value, lanes)
        return results

    def _words_of_vector(self) -> int:
        return min(self._shares, self.isa.words)

    def _read(self, at: Index, words: int) -> Any:
        data, count = self.buffers[self.spec.data.buffer], words * self.elements
        value = load(data, at, count)
        if self.products.signed:
            value = tirx.bitwise_xor(value, broadcast(tirx.IntImm("uint8", 0x80), count))
        return tirx.reinterpret(self._word(words), value)

    def _multiply_add(
        self,
        ci: Index,
        pixels: list[int],
        word_of: WordOf,
        weights: Index,
        accumulators: list[Any],
    ) -> None:
        """Write one pack of input channels: packs of weights times the packs of pixels."""
        code, lanes = self.code, self.isa.lanes
        together, shares, registers = self.products.pixels, self._shares, self._registers
        weight, type_of_sums = self.buffers[self.spec.weight], vector_type(self.sums, lanes)
        first = weights + ci * (registers * shares)
        size = shares * self.elements
        packs = [load(weight, first * self.elements + n * size, size) for n in range(registers)]
        row = [tirx.reinterpret(self._word(shares), pack) for pack in packs]
        for begin in range(0, len(accumulators), registers):
            of = [begin // registers * together + n for n in range(together)]
            words = {p: word_of(p) for p in of if p in pixels}
            if not words:
                continue
            (vector, _), *_ = words.values()
            zero = broadcast(tirx.const(0, self._word()), lanes_of(vector)), 0
            value = spread([words.get(p, zero) for p in of], shares)
            for acc, pack in zip(accumulators[begin:], row, strict=False):
                total = load(acc, 0, lanes)
                total = tirx.call_pure_extern(type_of_sums, "multiply_packs", total, value, pack)
                code.store(acc, 0, total, lanes)


class OpenPackMatrixWriter(PackWriter, OpenMatrixWriter):
    """A writer of packs for any number of rows of a matrix."""


class OpenPackRowsWriter(PackWriter, OpenRowsWriter):
    """A writer of packs for images of any size."""
