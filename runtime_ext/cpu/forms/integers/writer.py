"""Contractions of integers, in any partition with the same bits."""

from __future__ import annotations

from typing import Any

from runtime_ext.cpu.forms.integers.spec import IntegerContraction
from runtime_ext.cpu.forms.packs.writer import OpenPackMatrixWriter, OpenPackRowsWriter, PackWriter
from runtime_ext.cpu.kernels.blocking import has_rows
from runtime_ext.cpu.kernels.contraction import plan_tiles
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import BYTES, Isa
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
        of_any_size = OpenPackRowsWriter if has_rows(contraction) else OpenPackMatrixWriter
        writer = of_any_size(contraction, isa, code)
    else:
        writer = PackWriter(contraction, plan_tiles(contraction, isa), isa, code)
    writer.products, writer.sums = isa.products["int16" if spec.starts is None else BYTES], "int32"
    if spec.starts is not None:
        writer.starts = code.buffers[spec.starts]
    code.import_llvm(writer.products.code)
    writer.all_tiles()
    return code.kernel()
