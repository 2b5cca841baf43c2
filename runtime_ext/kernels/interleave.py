"""Interleave groups of channels in registers: vectors in, shuffled vectors out."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from runtime_ext.kernels.code import Code, Index, shuffle
from runtime_ext.kernels.spec import Interleave
from runtime_ext.kernels.statements import divide, element_offset, evaluate
from runtime_ext.kernels.vector_unit import VectorUnit

#: Elements a tile: long against a call, short enough to balance lanes.
_ELEMENTS = 4096


def interleave(spec: Interleave, unit: VectorUnit) -> tuple[Any, int]:
    """The PrimFunc and its number of tiles, some consecutive pixels of a row each."""
    buffers = [tirx.decl_buffer(s, "float32", f"b{i}") for i, s in enumerate(spec.buffers)]
    begin, end = tirx.Var("begin", "int32"), tirx.Var("end", "int32")
    code = Code()
    batch, height, width = spec.grid
    strip = max(1, min(width, _ELEMENTS // (spec.count * len(spec.values))))
    strips = -(-width // strip)
    with code.loop("tile", begin, end) as tile:
        line, part = divide(code, "line", tile, strips, batch * height)
        image, row = divide(code, "image", line, height, batch)
        first = code.bind("first", part * strip)
        last = first + strip if width % strip == 0 else tirx.min(first + strip, width)
        with code.loop("x", first, last) as x:
            grid = (image, row, x)
            if spec.count >= unit.lanes:
                with code.loop("c", 0, spec.count // unit.lanes) as c:
                    _vectors(spec, code, buffers, grid, c * unit.lanes, unit.lanes)
            if rest := spec.count % unit.lanes:
                _vectors(spec, code, buffers, grid, spec.count - rest, rest)
    return code.function(buffers, begin, end), batch * height * strips


def _vectors(
    spec: Interleave,
    code: Code,
    buffers: list[Any],
    grid: tuple[Index, Index, Index],
    channel: Index,
    lanes: int,
) -> None:
    """As many channels of every group as a vector holds."""
    groups = len(spec.values)
    read = [evaluate(code, buffers, value, grid, channel, None, lanes) for value in spec.values]
    at = element_offset(spec.target, grid, channel * groups)
    for vector in range(groups):
        places = [divmod(vector * lanes + i, groups) for i in range(lanes)]
        mixed = shuffle(read, [group * lanes + c for c, group in places])
        code.store(buffers[spec.target.buffer], at + vector * lanes, mixed, lanes)
