"""Winograd's filtering in one kernel: a block of tiles is transformed, multiplied and stored."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from runtime_ext.cpu.forms.winograd.input_writer import TileTransform
from runtime_ext.cpu.forms.winograd.output_writer import ProductsWriter, place_of, tiles_of
from runtime_ext.cpu.forms.winograd.spec import WinogradConvolution
from runtime_ext.cpu.kernels.rows import TileRun, kernel_columns
from runtime_ext.cpu.kernels.tile_code import TileCode
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.code import Index, integer
from runtime_ext.kernels.cut import channel_parts
from tvm_ios.shapes.extent import symbols_in


def winograd_convolution(spec: WinogradConvolution, isa: Isa) -> tuple[Any, int]:
    """Return the PrimFunc of the whole convolution, and its number of tiles.

    A tile is a block of the convolution's tiles, for all output channels.
    """
    parts = channel_parts(spec.parts, spec.vectors * isa.lanes)
    tiles = spec.tiles
    code = TileCode(spec.buffers, isa, symbols=symbols_in(spec))
    with code.tiles(tiles.blocks) as group:
        transformed = code.on_stack(tiles.positions * tiles.block * tiles.channels)
        transform = TileTransform(spec, code, transformed, isa.lanes)
        products = ProductsWriter(spec, parts, isa, code, transformed)
        first = code.bind("first", group * tiles.block)
        with code.loop("t", 0, tiles_of(code, tiles, first)) as t:
            _transform(transform, code.bind("number", first + t), t)
        with code.loop("channels", 0, sum(part.blocks for part in parts)) as block:
            products.write(group, block, 0)
    return code.kernel()


def _transform(transform: TileTransform, number: Index, t: Index) -> None:
    """Write the transform of a tile, which has place ``t`` in its block."""
    code, tiles, reading = transform.code, transform.tiles, transform.tiles.reading
    image, row, x = place_of(code, tiles, number)
    transform.begin_row(image, row)
    origin = code.bind("origin", t * tiles.channels)
    size = reading.kernel[1]
    begin, end = kernel_columns(code, reading, x)
    whole = tirx.all(integer(begin) <= 0, integer(end) >= size)
    everything = frozenset((0, k) for k in range(size))
    with code.branch(whole):
        transform.write(x, TileRun(0, 1, 1, everything), origin, 0, tiles.channels)
    with code.branch(tirx.Not(whole)):
        transform.write(x, (begin, end), origin, 0, tiles.channels)
