"""Contractions of integers on x86: register tiles as for floats, more products an instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from runtime_ext.cpu.forms.integers.spec import IntegerContraction
from runtime_ext.cpu.kernels.contraction import ContractionWriter, TilePlan, plan_tiles
from runtime_ext.cpu.kernels.rows import TileRun
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import BYTES, Isa
from runtime_ext.kernels.code import Index, broadcast, load
from runtime_ext.kernels.spec import Contraction


def integer_contraction(spec: IntegerContraction, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of a contraction of integers, and its number of tiles."""
    contraction = spec.contraction
    plan = plan_tiles(contraction, isa)
    dtypes = ["float32"] * len(spec.buffers)
    if spec.starts is None:
        dtypes[contraction.data.buffer] = dtypes[contraction.weight] = "int16"
    else:
        dtypes[contraction.data.buffer] = "uint8"
        dtypes[contraction.weight], dtypes[spec.starts] = "int8", "int32"
    code = TileCode(spec.buffers, isa, dtypes)
    if spec.starts is not None:
        code.import_llvm(isa.products[BYTES])
    with code.tiles(plan.tiles) as tile:
        _Writer(contraction, plan, isa, code, spec.starts).tile(tile)
    return code.kernel()


class _Writer(ContractionWriter):
    """A writer that accumulates in int32 and converts sums to float32 for the statements."""

    def __init__(
        self, spec: Contraction, plan: TilePlan, isa: Isa, code: TileCode, starts: int | None
    ) -> None:
        super().__init__(spec, plan, isa, code)
        self._starts = None if starts is None else code.buffers[starts]

    def accumulated(
        self, block: Index, run: TileRun, accumulate: Callable[[list[Any]], None]
    ) -> list[Any]:
        code, lanes, vectors = self.code, self.isa.lanes, self.spec.blocking.vectors
        count = run.pixels * vectors
        sums = [tirx.decl_buffer((lanes,), "int32", f"sum{i}") for i in range(count)]
        for number, total in enumerate(sums):
            code.append(tirx.AllocBuffer(total))
            first = broadcast(tirx.IntImm("int32", 0), lanes)
            if self._starts is not None:
                first = load(self._starts, (block * vectors + number % vectors) * lanes, lanes)
            code.store(total, 0, first, lanes)
        accumulate(sums)
        results = code.accumulators(count, lanes)
        for total, result in zip(sums, results, strict=True):
            code.store(result, 0, tirx.Cast(_type("float32", lanes), load(total, 0, lanes)), lanes)
        return results

    def _multiply_add(
        self, ci: Index, pixels: list[int], source: Index, weights: Index, accumulators: list[Any]
    ) -> None:
        """Write one pack of input channels: packs of weights times each pixel's broadcast pack."""
        spec, code, lanes = self.spec, self.code, self.isa.lanes
        vectors = spec.blocking.vectors
        _, _, sw, pack = spec.data.strides
        weight, data = self.buffers[spec.weight], self.buffers[spec.data.buffer]
        first = (weights + ci * (vectors * lanes)) * pack
        row = [load(weight, first + v * (pack * lanes), pack * lanes) for v in range(vectors)]
        for p in pixels:
            at = source + p * spec.window.strides[1] * sw + ci * pack
            value = broadcast(tirx.reinterpret("int32", load(data, at, pack)), lanes)
            for v in range(vectors):
                acc = accumulators[p * vectors + v]
                code.store(acc, 0, self._added(load(acc, 0, lanes), value, row[v]), lanes)

    def _added(self, total: Any, data: Any, weights: Any) -> Any:
        """Return the sums plus products of packs: 32-bit words of data, vectors of weights."""
        lanes = self.isa.lanes
        sums = _type("int32", lanes)
        if self._starts is not None:
            fours = tirx.reinterpret(sums, weights)
            return tirx.call_pure_extern(sums, "multiply_fours", total, data, fours)
        pairs = tirx.reinterpret(_type("int16", 2 * lanes), data)
        return total + tirx.call_llvm_pure_intrin(sums, self.isa.products["int16"], weights, pairs)


def _type(scalar: str, lanes: int) -> str:
    return scalar if lanes == 1 else f"{scalar}x{lanes}"
