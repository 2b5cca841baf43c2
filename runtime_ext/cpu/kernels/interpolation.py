"""Enlarge images by whole factors; each input's neighbourhood is read once for all its results."""

from __future__ import annotations

from typing import Any

from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.interpolator import Interpolator
from runtime_ext.kernels.spec import Interpolation
from runtime_ext.kernels.statements import divide
from tvm_ios.shapes.extent import symbols_in


def interpolation(spec: Interpolation, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of an interpolation and its number of tiles, an input row each."""
    height, width = spec.pixels
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    with code.tiles(spec.batch * height) as tile:
        image, row = divide(code, "image", tile, height, spec.batch)
        with code.loop("x", 0, code.extent(width)) as column:
            writer = Interpolator(spec, code.buffers, code, image, row, column)
            code.vectors(spec.channels, isa.lanes, writer.channels)
    return code.kernel()
