"""Write images in 8 or 16 bits, their channels filled up with zeros to whole packs."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from runtime_ext.cpu.forms.packs.spec import Narrowing
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, broadcast, load
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import extents
from runtime_ext.kernels.statements import activate, element_offset
from tvm_ios.shapes.extent import is_open, may_be_positive, symbols_in

#: Elements of a tile of narrowed images.
_ELEMENTS = 4096


def narrowing(spec: Narrowing, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc that writes images in 8 or 16 bits, and its number of tiles."""
    rows, columns = spec.pixels
    (top, left), filled = spec.pads, extents(spec.buffers[1])[-1]
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    source, result = code.buffers
    encoding = spec.buffers[1].encoding
    as_it_is = spec.prologue == ACC and encoding == getattr(spec.buffers[0], "encoding", None)
    if as_it_is:
        # Copy the same numbers without converting them to floats.
        source, result = source.buffer, result.buffer
    strip = max(1, _ELEMENTS // filled)
    strip = strip if is_open(columns) else min(columns, strip)
    data = code.access(spec.data)
    with code.pixels((spec.batch, rows, columns), strip) as grid:
        image, row, x = grid
        line = image * code.extent(rows) + row
        target = code.bind("target", (line * code.extent(columns) + x) * filled)
        place = (image, row - top, x - left)

        def write(c: Index, lanes: int) -> None:
            at = element_offset(data, place, c)
            value = load(source, at, lanes, data.strides[3])
            if not as_it_is:
                value = activate(code, spec.prologue, value, lanes)
            code.store(result, target + c, value, lanes)

        def write_zeros(c: Index, lanes: int) -> None:
            zeros = broadcast(tirx.IntImm(encoding.dtype, encoding.shift), lanes)
            code.store(code.buffers[1].buffer, target + c, zeros, lanes)

        inside = _inside(spec, code, place[1:])
        with code.branch(inside):
            code.vectors(spec.channels, isa.lanes, write)
            for channel in range(spec.channels, filled):
                write_zeros(channel, 1)
        if inside is not None:
            with code.branch(tirx.Not(inside)):
                code.vectors(filled, isa.lanes, write_zeros)
    return code.kernel()


def _inside(spec: Narrowing, code: TileCode, place: tuple[Index, Index]) -> Any:
    """Return the condition that a pixel is inside the image; None if all are."""
    conditions: list[Any] = []
    axes = zip(place, spec.pads, spec.pixels, spec.source_pixels, strict=True)
    for at, before, extent, source in axes:
        if before > 0:
            conditions.append(at >= 0)
        if may_be_positive(extent - before - source):
            conditions.append(at < code.extent(source))
    return tirx.all(*conditions) if conditions else None
