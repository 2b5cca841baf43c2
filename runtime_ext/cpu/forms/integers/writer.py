"""Contractions of integers on x86: register tiles as for floats, more products an instruction."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from runtime_ext.cpu.forms.integers.spec import IntegerContraction
from runtime_ext.cpu.kernels.blocking import has_rows
from runtime_ext.cpu.kernels.contraction import ContractionWriter, plan_tiles
from runtime_ext.cpu.kernels.open_contraction import OpenMatrixWriter
from runtime_ext.cpu.kernels.open_convolution import OpenRowsWriter
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import BYTES, Isa
from runtime_ext.kernels.code import Index, broadcast, load
from tvm_ios.shapes.extent import symbols_in


def integer_contraction(spec: IntegerContraction, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of a contraction of integers, and its number of tiles."""
    contraction, symbols = spec.contraction, symbols_in(spec)
    dtypes = ["float32"] * len(spec.buffers)
    if spec.starts is None:
        dtypes[contraction.data.buffer] = dtypes[contraction.weight] = "int16"
    else:
        dtypes[contraction.data.buffer] = "uint8"
        dtypes[contraction.weight], dtypes[spec.starts] = "int8", "int32"
    code = TileCode(spec.buffers, isa, dtypes, symbols)
    if symbols:
        of_any_size = _OpenRowsWriter if has_rows(contraction) else _OpenMatrixWriter
        writer = of_any_size(contraction, isa, code)
    else:
        writer = _Writer(contraction, plan_tiles(contraction, isa), isa, code)
    if spec.starts is not None:
        code.import_llvm(isa.products[BYTES])
        writer.starts = code.buffers[spec.starts]
    writer.all_tiles()
    return code.kernel()


class _Writer(ContractionWriter):
    """A writer that accumulates in int32 and converts sums to float32 for the statements."""

    #: The buffer of what the sums begin with; None for zeros.
    starts: Any = None

    def first_sums(self, block: Index, pixels: int) -> list[Any]:
        code, lanes, vectors = self.code, self.isa.lanes, self.spec.blocking.vectors
        sums = code.accumulators(pixels * vectors, lanes, "int32")
        for number, total in enumerate(sums):
            first = broadcast(tirx.IntImm("int32", 0), lanes)
            if self.starts is not None:
                first = load(self.starts, (block * vectors + number % vectors) * lanes, lanes)
            code.store(total, 0, first, lanes)
        return sums

    def in_floats(self, sums: list[Any]) -> list[Any]:
        code, lanes = self.code, self.isa.lanes
        results = code.accumulators(len(sums), lanes)
        for total, result in zip(sums, results, strict=True):
            code.store(result, 0, tirx.Cast(_type("float32", lanes), load(total, 0, lanes)), lanes)
        return results

    def _multiply_add(
        self, ci: Index, pixels: list[int], source: Index, weights: Index, accumulators: list[Any]
    ) -> None:
        """Write one pack of input channels: packs of weights times each pixel's broadcast pack."""
        spec, code, lanes = self.spec, self.code, self.isa.lanes
        vectors = spec.blocking.vectors
        pack = spec.data.strides[3]
        weight, data = self.buffers[spec.weight], self.buffers[spec.data.buffer]
        first = (weights + ci * (vectors * lanes)) * pack
        row = [load(weight, first + v * (pack * lanes), pack * lanes) for v in range(vectors)]
        for p in pixels:
            at = self._of_pixel(source, p) + ci * pack
            value = broadcast(tirx.reinterpret("int32", load(data, at, pack)), lanes)
            for v in range(vectors):
                acc = accumulators[p * vectors + v]
                code.store(acc, 0, self._added(load(acc, 0, lanes), value, row[v]), lanes)

    def _added(self, total: Any, data: Any, weights: Any) -> Any:
        """Return the sums plus products of packs: 32-bit words of data, vectors of weights."""
        lanes = self.isa.lanes
        sums = _type("int32", lanes)
        if self.starts is not None:
            fours = tirx.reinterpret(sums, weights)
            return tirx.call_pure_extern(sums, "multiply_fours", total, data, fours)
        pairs = tirx.reinterpret(_type("int16", 2 * lanes), data)
        return total + tirx.call_llvm_pure_intrin(sums, self.isa.products["int16"], weights, pairs)


class _OpenMatrixWriter(_Writer, OpenMatrixWriter):
    """A writer of integers for any number of rows of a matrix."""


class _OpenRowsWriter(_Writer, OpenRowsWriter):
    """A writer of integers for images of any size."""


def _type(scalar: str, lanes: int) -> str:
    return scalar if lanes == 1 else f"{scalar}x{lanes}"
