"""Contractions with weights in bfloat16, converted in registers or multiplied in pairs directly.

bfloat16 is the upper half of float32. A pair of input channels is stored in 32 bits, so that one
instruction converts a vector of either to float32: shift the pair left, or clear its lower half.
Half the bytes come from memory.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from runtime_ext.cpu.forms.bfloat16.spec import Bfloat16Contraction
from runtime_ext.cpu.kernels.contraction import ContractionWriter, plan_tiles
from runtime_ext.cpu.kernels.passes import Fetch
from runtime_ext.cpu.kernels.rows import TileRun
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, broadcast, load
from tvm_ios.program.bfloat16 import FORM


def bfloat16_contraction(spec: Bfloat16Contraction, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of a contraction with bfloat16 weights, and its number of tiles."""
    contraction = spec.contraction
    plan = plan_tiles(contraction, isa)
    halves = {contraction.weight, *([contraction.data.buffer] if spec.rounded else [])}
    dtypes = ["uint16" if i in halves else "float32" for i in range(len(spec.buffers))]
    code = TileCode(spec.buffers, isa, dtypes)
    if spec.rounded:
        code.import_llvm(isa.products[FORM])
    writer = _PairsWriter if spec.rounded else _WideningWriter
    with code.tiles(plan.tiles) as tile:
        writer(contraction, plan, isa, code).tile(tile)
    return code.kernel()


class _PairsWriter(ContractionWriter):
    """A writer for data in bfloat16; ``channels`` counts pairs."""

    def _multiply_add(
        self, ci: Index, pixels: list[int], source: Index, weights: Index, accumulators: list[Any]
    ) -> None:
        spec, code, lanes = self.spec, self.code, self.isa.lanes
        vectors = spec.blocking.vectors
        _, _, sw, sc = spec.data.strides
        row = _vectors_of_pairs(self, weights + ci * (vectors * lanes))
        for p in pixels:
            at = source + p * spec.window.strides[1] * sw + ci * sc
            pair = tirx.reinterpret("int32", load(self.buffers[spec.data.buffer], at, 2))
            value = tirx.reinterpret(f"uint16x{2 * lanes}", broadcast(pair, lanes))
            for v in range(vectors):
                acc = accumulators[p * vectors + v]
                total = tirx.call_pure_extern(
                    f"float32x{lanes}", "multiply_pairs", load(acc, 0, lanes), row[v], value
                )
                code.store(acc, 0, total, lanes)


class _WideningWriter(ContractionWriter):
    """A writer for data in float32; ``channels`` counts single channels."""

    def _words(self) -> int:
        return -(-self.spec.channels // 2)

    def _words_of_row(self, run: TileRun) -> int:
        # With an odd number of channels, half a word of each column is unused: rows are not
        # contiguous.
        return 0

    def _input_channels(
        self,
        words: int,
        pixels: list[int],
        source: Index,
        weights: Index,
        accumulators: list[Any],
        fetch: Fetch,
    ) -> None:
        pairs, odd = divmod(words, 2)
        unroll = min(pairs, max(1, self._unroll(words, len(accumulators)) // 2))

        def multiply(pair: Index, halves: int = 2) -> None:
            self._multiply_pair(pair, halves, pixels, source, weights, accumulators)

        self.unrolled(pairs, unroll, weights, multiply, fetch)
        if odd:
            multiply(pairs, halves=1)

    def _multiply_pair(
        self,
        pair: Index,
        halves: int,
        pixels: list[int],
        source: Index,
        weights: Index,
        accumulators: list[Any],
    ) -> None:
        """Multiply one or both channels of a pair: weight vectors times each pixel's value."""
        spec, code, lanes = self.spec, self.code, self.isa.lanes
        vectors = spec.blocking.vectors
        _, _, sw, sc = spec.data.strides
        both = _vectors_of_pairs(self, weights + pair * (vectors * lanes))
        words = [tirx.reinterpret(f"uint32x{lanes}", vector) for vector in both]
        for half in range(halves):
            row = [code.bind("w", _half(word, half, lanes)) for word in words]
            for p in pixels:
                at = source + p * spec.window.strides[1] * sw + (pair * 2 + half) * sc
                value = self.repeated(at)
                for v in range(vectors):
                    acc = accumulators[p * vectors + v]
                    code.store(acc, 0, load(acc, 0, lanes) + value * row[v], lanes)


def _vectors_of_pairs(writer: ContractionWriter, first: Index) -> list[Any]:
    """Load the pairs of weights of a block's output channels, from pair ``first`` of the buffer."""
    lanes, weight = writer.isa.lanes, writer.buffers[writer.spec.weight]
    return [
        load(weight, (first + v * lanes) * 2, 2 * lanes)
        for v in range(writer.spec.blocking.vectors)
    ]


def _half(word: Any, half: int, lanes: int) -> Any:
    """Convert the first or second bfloat16 of each pair to float32."""
    if half:
        bits = tirx.bitwise_and(word, broadcast(tirx.IntImm("uint32", 0xFFFF0000), lanes))
    else:
        bits = tirx.shift_left(word, broadcast(tirx.IntImm("uint32", 16), lanes))
    return tirx.reinterpret(f"float32x{lanes}", bits)
