"""Contractions with weights in bfloat16, converted in registers or multiplied in pairs directly.

bfloat16 is the upper half of float32. A pair of input channels is stored in 32 bits, so that one
instruction converts a vector of either to float32: shift the pair left, or clear its lower half.
Half the bytes come from memory.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from runtime_ext.cpu.forms.bfloat16.spec import Bfloat16Contraction
from runtime_ext.cpu.forms.packs.writer import PackWriter
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
    writer = (PackWriter if spec.rounded else _WideningWriter)(contraction, plan, isa, code)
    if isinstance(writer, PackWriter):
        writer.products = isa.products[FORM]
        code.import_llvm(writer.products.code)
    writer.all_tiles()
    return code.kernel()


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

        def multiply(first: Index, channels: int) -> None:
            """Multiply consecutive channels: weight vectors times each pixel's value."""
            channel_of = self.words_of(pixels, source, 2 * first, channels)
            for n, (_, word_of) in enumerate(channel_of):
                row = self._row(weights, first + n // 2, n % 2)
                self.add_products(pixels, word_of, row, accumulators)

        self.unrolled(pairs, unroll, weights, lambda first, n: multiply(first, 2 * n), fetch)
        if odd:
            multiply(pairs, 1)

    def _row(self, weights: Index, pair: Index, half: int) -> list[Any]:
        """Return the weights of a block's output channels for one channel of a pair, as floats."""
        code, lanes, weight = self.code, self.isa.lanes, self.buffers[self.spec.weight]
        vectors = self.spec.blocking.vectors
        first = (weights + pair * (vectors * lanes)) * 2
        both = [load(weight, first + v * (2 * lanes), 2 * lanes) for v in range(vectors)]
        words = [tirx.reinterpret(f"uint32x{lanes}", vector) for vector in both]
        return [code.bind("w", _half(word, half, lanes)) for word in words]


def _half(word: Any, half: int, lanes: int) -> Any:
    """Convert the first or second bfloat16 of each pair to float32."""
    if half:
        bits = tirx.bitwise_and(word, broadcast(tirx.IntImm("uint32", 0xFFFF0000), lanes))
    else:
        bits = tirx.shift_left(word, broadcast(tirx.IntImm("uint32", 16), lanes))
    return tirx.reinterpret(f"float32x{lanes}", bits)
