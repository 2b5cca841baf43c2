"""Contractions of integers on x86: a register tile as of floats, two products an instruction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import tirx

from runtime_ext.cpu.kernels.bfloat16_contraction import rounded
from runtime_ext.cpu.kernels.contraction import ContractionWriter, TilePlan, plan_tiles
from runtime_ext.cpu.kernels.rows import TileRun
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.cpu.kernels.vector_unit import VectorUnit
from runtime_ext.kernels.code import Index, broadcast, load
from runtime_ext.kernels.integer_contraction import IntegerContraction, Narrowing
from runtime_ext.kernels.statements import activate, element_offset

#: Elements of a tile of a narrowing.
_ELEMENTS = 4096
#: The instruction that multiplies pairs of int16 and adds the products of each pair, by the lanes
#: of its result.
_MULTIPLY_ADD: Mapping[int, str] = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}


def narrowing(spec: Narrowing, unit: VectorUnit) -> tuple[Any, int]:
    """The PrimFunc that writes floats in 16 bits, and its number of tiles."""
    stored = "uint16" if spec.dtype == "bfloat16" else spec.dtype
    rows, columns = spec.pixels
    even = spec.channels + spec.channels % 2
    code = TileCode(spec.buffers, ("float32", stored))
    strip = max(1, min(columns, _ELEMENTS // even))
    with code.pixels((spec.batch, rows, columns), strip) as grid:
        image, row, x = grid
        target = code.bind("target", ((image * rows + row) * columns + x) * even)

        def write(c: Index, lanes: int) -> None:
            at = element_offset(spec.data, grid, c)
            value = load(code.buffers[0], at, lanes, spec.data.strides[3])
            value = activate(code, spec.prologue, value, lanes)
            if spec.dtype == "bfloat16":
                value = rounded(value, lanes)
            else:
                value = tirx.Cast(_type(stored, lanes), value)
            code.store(code.buffers[1], target + c, value, lanes)

        code.vectors(spec.channels, unit.lanes, write)
        if spec.channels % 2:
            code.store(code.buffers[1], target + spec.channels, tirx.IntImm(stored, 0), 1)
    return code.kernel()


def integer_contraction(spec: IntegerContraction, unit: VectorUnit) -> tuple[Any, int]:
    """The PrimFunc of a contraction of integers, and its number of tiles."""
    contraction = spec.contraction
    plan = plan_tiles(contraction, unit)
    narrow = {contraction.data.buffer, contraction.weight}
    dtypes = ["int16" if i in narrow else "float32" for i in range(len(spec.buffers))]
    code = TileCode(spec.buffers, dtypes)
    with code.tiles(plan.tiles) as tile:
        _Writer(contraction, plan, unit, code).tile(tile)
    return code.kernel()


class _Writer(ContractionWriter):
    """Adds up int32, and hands float32 to the statements."""

    def __init__(self, spec: Any, plan: TilePlan, unit: VectorUnit, code: TileCode) -> None:
        super().__init__(spec, plan, unit, code)
        self.instruction = _MULTIPLY_ADD[unit.lanes]

    def accumulated(self, run: TileRun, accumulate: Any) -> list[Any]:
        code, lanes = self.code, self.unit.lanes
        count = run.pixels * self.spec.blocking.vectors
        sums = [tirx.decl_buffer((lanes,), "int32", f"sum{i}") for i in range(count)]
        for total in sums:
            code.append(tirx.AllocBuffer(total))
            code.store(total, 0, broadcast(tirx.IntImm("int32", 0), lanes), lanes)
        accumulate(sums)
        results = code.accumulators(count, lanes)
        for total, result in zip(sums, results, strict=True):
            code.store(result, 0, tirx.Cast(_type("float32", lanes), load(total, 0, lanes)), lanes)
        return results

    def _multiply_add(
        self, ci: Index, pixels: list[int], source: Index, weights: Index, accumulators: list[Any]
    ) -> None:
        """A pair of input channels: pairs of weights times each pixel's broadcast pair."""
        spec, code, lanes = self.spec, self.code, self.unit.lanes
        vectors = spec.blocking.vectors
        _, _, sw, sc = spec.data.strides
        weight, data = self.buffers[spec.weight], self.buffers[spec.data.buffer]
        first = (weights + ci * (vectors * lanes)) * 2
        row = [load(weight, first + v * (2 * lanes), 2 * lanes) for v in range(vectors)]
        pair = _type("int16", 2 * lanes)
        for p in pixels:
            at = source + p * spec.window.strides[1] * sw + ci * sc
            both = tirx.reinterpret("int32", load(data, at, 2))
            value = tirx.reinterpret(pair, broadcast(both, lanes))
            for v in range(vectors):
                acc = accumulators[p * vectors + v]
                product = tirx.call_llvm_pure_intrin(
                    _type("int32", lanes), self.instruction, row[v], value
                )
                code.store(acc, 0, load(acc, 0, lanes) + product, lanes)


def _type(scalar: str, lanes: int) -> str:
    return scalar if lanes == 1 else f"{scalar}x{lanes}"
