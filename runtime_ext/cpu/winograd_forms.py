"""Plans of units whose convolutions use Winograd's filtering on a CPU, and which may be faster.

An estimate decides before anything is compiled: the multiply-adds that are saved, against the
arithmetic and traffic of the transforms and the larger weights, which each run reads from memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from runtime_ext.cpu.kernels.blocking import most_pixels
from runtime_ext.cpu.kernels.linear_map import operations
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.spec import Contraction
from runtime_ext.kernels.winograd_convolution import WinogradKernel, WinogradTiles
from runtime_ext.units.by_winograd import WinogradCut, by_winograd, fits
from runtime_ext.units.placed import Placed
from runtime_ext.units.plans import form_plan
from runtime_ext.units.unit import UnitPlan, UnitSource
from tvm_ios.program.winograd import FORM

#: A convolution and its cut.
Cut = tuple[Contraction, WinogradCut]

#: Outputs of a tile along an axis.
_OUTPUTS = (2, 4, 6)
#: Tiles that are multiplied and transformed together: with more, weights are read less often, but
#: the products must stay in a second-level cache.
_BLOCK = 24
#: With fewer channels the transforms cost more than they save.
_FEWEST_CHANNELS = 8
#: A form is left out only if its estimate is worse by this factor.
_MARGIN = 1.1
#: Cycles to read a byte from memory, and cycles of a vector operation of a transform, including its
#: read or write.
MEMORY_CYCLES, _TRANSFORM_CYCLES = 0.15, 1.0


def all_winograd_plans(source: UnitSource, space: VectorSpace) -> dict[str, UnitPlan]:
    """Return every plan by Winograd's filtering that the unit can have, by name."""
    return {_name(outputs): plan for outputs, (plan, _) in _plans(source, space).items()}


def promising_winograd_plans(source: UnitSource, space: VectorSpace) -> dict[str, UnitPlan]:
    """Return the Winograd plans whose estimates are among the least and below the default's.

    The best of the tiles below six rows is included too: tiles of six have the largest error, and
    a caller may exclude them.
    """
    plans = _plans(source, space)
    promising: set[int] = set()
    for rate in space.isa.multiply_adds:
        shares = {o: _share(cuts, space.isa, rate) for o, (_, cuts) in plans.items()}
        shares = {outputs: share for outputs, share in shares.items() if share < 1}
        least = min(shares.values(), default=0.0)
        small = min((share for outputs, share in shares.items() if outputs < 6), default=0.0)
        promising |= {o for o, s in shares.items() if s <= _MARGIN * least or s == small}
    return {_name(o): plan for o, (plan, _) in plans.items() if o in promising}


def _name(outputs: int) -> str:
    return f"{FORM}{outputs}"


def _share(cuts: Sequence[Cut], isa: Isa, rate: float) -> float:
    """Return the estimated cycles by Winograd's filtering, divided by those of the default."""
    filtered = sum(winograd_cycles(spec, cut, isa, rate) for spec, cut in cuts)
    return filtered / sum(direct_cycles(spec, isa, rate) for spec, _ in cuts)


def _plans(source: UnitSource, space: VectorSpace) -> dict[int, tuple[UnitPlan, list[Cut]]]:
    """Return the plan for each tile extent that fits, with its convolutions and their cuts."""
    plans = {outputs: _plan(source, space, outputs) for outputs in _OUTPUTS}
    return {outputs: plan for outputs, plan in plans.items() if plan is not None}


def _plan(
    source: UnitSource, space: VectorSpace, outputs: int
) -> tuple[UnitPlan, list[Cut]] | None:
    cuts: list[Cut] = []

    def instead(kernel: Placed[Contraction]) -> Sequence[Placed[WinogradKernel]] | None:
        if not fits(kernel.spec, outputs):
            return None
        cut = winograd_cut(kernel.spec, outputs, space.isa)
        cuts.append((kernel.spec, cut))
        return by_winograd(kernel, cut)

    plan = form_plan(source, space, instead, _name(outputs))
    return None if plan is None else (plan, cuts)


def winograd_cut(spec: Contraction, outputs: int, isa: Isa) -> WinogradCut:
    """Return a convolution's cut: the register tile that wastes least, blocks of equal height."""
    tiles = WinogradTiles(spec.batch, spec.window, spec.channels, outputs, 1).tiles
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
    if blocks > 1:
        block = ceil(block / rows) * rows
    return WinogradCut(outputs, block, rows, vectors, vectors * isa.lanes)


def direct_cycles(spec: Contraction, isa: Isa, rate: float) -> float:
    """Estimate the cycles of a convolution by the default direct kernel."""
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
    data = 2 * tiles.tiles * tiles.positions * spec.channels * 4
    return (
        wait * multiply_adds / rate
        + _TRANSFORM_CYCLES * transforms
        + MEMORY_CYCLES * weights
        + 0.02 * data
    )
