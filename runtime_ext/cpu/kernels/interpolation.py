"""Resize images."""

from __future__ import annotations

from functools import partial
from typing import Any

from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.interpolator import Interpolator, Resampler
from runtime_ext.kernels.spec import Interpolation, Resampling
from runtime_ext.kernels.statements import divide
from tvm_ios.shapes.extent import symbols_in


def interpolation(spec: Interpolation, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of an interpolation and its number of tiles, an input row each.

    Each input's neighbourhood is read once for all its results.
    """
    height, width = spec.pixels
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    with code.tiles(spec.batch * height) as tile:
        image, row = divide(code, "image", tile, height, spec.batch)
        with code.loop("x", 0, code.extent(width)) as column:
            writer = Interpolator(spec, code.buffers, code, image, row, column)
            code.vectors(spec.channels, isa.lanes, writer.channels)
    return code.kernel()


def resampling(spec: Resampling, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of a resampling and its number of tiles, a row of results each."""
    height, width = spec.pixels
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    with code.tiles(spec.batch * height) as tile:
        image, row = divide(code, "image", tile, height, spec.batch)
        writer = Resampler(spec, code.buffers, code, image, row)
        with code.loop("x", 0, code.extent(width)) as column:
            write = partial(writer.channels, writer.columns(column), column)
            code.vectors(spec.channels, isa.lanes, write)
    return code.kernel()
