"""The mean of all pixels, channel by channel."""

from __future__ import annotations

from functools import partial
from typing import Any

from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, broadcast, constant, load, number, widths
from runtime_ext.kernels.expression import ACC
from runtime_ext.kernels.spec import Mean
from runtime_ext.kernels.statements import activate, divide, store_statement
from tvm_ios.errors import UserError
from tvm_ios.shapes.extent import ceil_div, is_open, symbols_in

#: Vectors of channels that are summed together: enough sums in flight to hide latency.
_VECTORS = 4


def mean(spec: Mean, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of a mean over pixels and its number of tiles (blocks of channels).

    Raise UserError if the channels are open.
    """
    if is_open(spec.channels):
        raise UserError(
            "there is no kernel of open extents for a Mean whose channels depend on the shape: "
            "give exact shapes"
        )
    block = _VECTORS * isa.lanes
    blocks = ceil_div(spec.channels, block)
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    with code.tiles(spec.batch * blocks) as tile:
        image, part = divide(code, "image", tile, blocks, spec.batch)
        code.blocks(part, spec.channels, block, partial(_sum, spec, isa, code, image))
    return code.kernel()


def _sum(spec: Mean, isa: Isa, code: TileCode, image: Index, channel: Index, count: int) -> None:
    """Write the means of ``count`` channels."""
    data = code.access(spec.data)
    sn, sh, sw, sc = data.strides
    starts, widths_of_vectors = range(0, count, isa.lanes), widths(count, isa.lanes)
    accumulators = [code.accumulators(1, lanes)[0] for lanes in widths_of_vectors]
    for acc, lanes in zip(accumulators, widths_of_vectors, strict=True):
        code.store(acc, 0, constant(0.0, lanes), lanes)
    channel = code.bind("channel", channel)
    rows, columns = map(code.extent, spec.pixels)
    with code.loop("y", 0, rows) as y, code.loop("x", 0, columns) as x:
        origin = data.offset + image * sn + y * sh + x * sw + channel * sc
        for acc, lanes, start in zip(accumulators, widths_of_vectors, starts, strict=True):
            value = load(code.buffers[data.buffer], origin + start * sc, lanes, sc)
            if spec.prologue != ACC:
                value = activate(code, spec.prologue, value, lanes)
            code.store(acc, 0, load(acc, 0, lanes) + value, lanes)
    pixels = number(code.extent(spec.pixels[0] * spec.pixels[1]))
    for acc, lanes, start in zip(accumulators, widths_of_vectors, starts, strict=True):
        value = load(acc, 0, lanes) / broadcast(pixels, lanes)
        for statement in spec.statements:
            grid = (image, 0, 0)
            store_statement(code, code.buffers, statement, grid, channel + start, value, lanes)
