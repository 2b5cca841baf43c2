"""Choose how a convolution by Winograd's filtering is cut, and estimate its cycles.

The estimate weighs the multiply-adds that are saved against the arithmetic and traffic of the
transforms and the larger weights, which each run reads from memory.
"""

from __future__ import annotations

from math import ceil, prod

from runtime_ext.cpu.forms.form import MEMORY_CYCLES
from runtime_ext.cpu.forms.winograd.linear_map import operations
from runtime_ext.cpu.forms.winograd.plan import WinogradCut
from runtime_ext.cpu.forms.winograd.spec import WinogradTiles
from runtime_ext.cpu.kernels.blocking import most_pixels
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.spec import Contraction
from tvm_ios.shapes.extent import bounds, is_open

#: Tiles that are multiplied and transformed together: with more, weights are read less often, but
#: the products must stay in a second-level cache.
_BLOCK = 24
#: Transformed tiles of fewer bytes stay in a second-level cache between two kernels; so many at
#: most lie on the stack of one.
_NEAR_BYTES, _STACK_BYTES = 1 << 20, 320 * 1024
#: One kernel reads all weights for each block: for fewer tiles that takes longer.
_LEAST_FUSED = 18
#: Cycles of a vector operation of a transform, including its read or write.
_TRANSFORM_CYCLES = 1.0


def winograd_cut(spec: Contraction, outputs: int, isa: Isa) -> WinogradCut:
    """Return a convolution's cut: the register tile that wastes least, blocks of equal height.

    It is one kernel where the transformed tiles would leave the caches before they are multiplied.
    Of open extents the cut is that of the largest shape.
    """
    one = WinogradTiles(spec.batch, spec.window, spec.channels, outputs, 1)
    _, tiles = bounds(one.tiles)
    blocks = ceil(tiles / _BLOCK)
    block = ceil(tiles / blocks)

    def cycles(vectors: int) -> float:
        rows = most_pixels(vectors, isa)
        width = vectors * isa.lanes
        columns = sum(ceil(part / width) for part in spec.parts)
        number = ceil(block / rows)
        height = block / number
        loads = (height + vectors) / 2
        return columns * number * max(height * vectors / 2, loads, 4.0) + 0.1 * columns

    vectors = min(range(1, 5), key=lambda v: (cycles(v), v))
    rows = most_pixels(vectors, isa)
    if blocks > 1 or is_open(one.tiles):
        # The last register tile of an open number of tiles may be larger than what is left.
        block = ceil(block / rows) * rows
    of_tile = one.positions * spec.channels * 4
    together = min(block, _STACK_BYTES // (of_tile * rows) * rows)
    if tiles * of_tile < _NEAR_BYTES or together < _LEAST_FUSED:
        return WinogradCut(outputs, block, rows, vectors, vectors * isa.lanes)
    return WinogradCut(outputs, together, rows, vectors, vectors * isa.lanes, is_fused=True)


def direct_cycles(spec: Contraction, isa: Isa, rate: float) -> float:
    """Estimate the cycles of a convolution by the default direct kernel.

    ``rate`` is vector multiply-adds a cycle.
    """
    taps = spec.window.kernel[0] * spec.window.kernel[1]
    height, width = spec.window.output
    lanes = isa.lanes
    columns = sum(ceil(part / lanes) for part in spec.parts)
    multiply_adds = spec.batch * height * width * taps * spec.channels * columns
    weights = columns * lanes * spec.channels * taps * 4
    return multiply_adds / rate + MEMORY_CYCLES * weights


def winograd_cycles(spec: Contraction, cut: WinogradCut, isa: Isa, rate: float) -> float:
    """Estimate the cycles of a convolution by Winograd's filtering."""
    tiles = WinogradTiles(spec.batch, spec.window, spec.channels, cut.outputs, cut.block)
    lanes = isa.lanes
    columns = sum(ceil(part / cut.width) for part in spec.parts) * cut.vectors
    number = ceil(cut.block / cut.rows)
    height = cut.block / number
    busy = height * cut.vectors / 2
    wait = max(1.0, max((height + cut.vectors) / 2, 4.0) / busy)
    multiply_adds = tiles.tiles * tiles.positions * spec.channels * columns
    weights = columns * lanes * spec.channels * tiles.positions * 4
    by_row, by_column = tiles.filterings
    read = by_column.size * operations(by_row.data, by_rows=True)
    read += by_row.size * operations(by_column.data, by_rows=True) + 2 * tiles.positions
    written = by_column.size * operations(by_row.inverse, by_rows=False)
    written += by_row.outputs * operations(by_column.inverse, by_rows=False)
    written += tiles.positions + prod(tiles.extent)
    transforms = tiles.tiles * (ceil(spec.channels / lanes) * read + columns * written)
    data = 0 if cut.is_fused else 2 * tiles.tiles * tiles.positions * spec.channels * 4
    return (
        wait * multiply_adds / rate
        + _TRANSFORM_CYCLES * transforms
        + MEMORY_CYCLES * weights
        + 0.02 * data
    )
