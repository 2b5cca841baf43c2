"""Interleave groups of channels in registers: load vectors, shuffle them, store."""

from __future__ import annotations

from functools import partial
from typing import Any

from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, shuffle
from runtime_ext.kernels.spec import Interleave
from runtime_ext.kernels.statements import element_offset, evaluate
from tvm_ios.shapes.extent import is_open, symbols_in

#: Elements a tile: long against a call, short enough to balance lanes.
_ELEMENTS = 4096


def interleave(spec: Interleave, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc and its number of tiles, some consecutive pixels of a row each."""
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    width, strip = spec.grid[2], max(1, _ELEMENTS // (spec.count * len(spec.values)))
    strip = strip if is_open(width) else min(width, strip)
    with code.pixels(spec.grid, strip) as grid:
        code.vectors(spec.count, isa.lanes, partial(_vectors, spec, code, grid))
    return code.kernel()


def _vectors(
    spec: Interleave, code: TileCode, grid: tuple[Index, Index, Index], channel: Index, lanes: int
) -> None:
    """Interleave and store one vector of channels of every group."""
    buffers, groups = code.buffers, len(spec.values)
    read = [evaluate(code, buffers, value, grid, channel, None, lanes) for value in spec.values]
    at = element_offset(code.access(spec.target), grid, channel * groups)
    for vector in range(groups):
        places = [divmod(vector * lanes + i, groups) for i in range(lanes)]
        mixed = shuffle(read, [group * lanes + c for c, group in places])
        code.store(buffers[spec.target.buffer], at + vector * lanes, mixed, lanes)
