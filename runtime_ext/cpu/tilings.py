"""Coarser and finer tilings of kernels than the default, chosen by an analytic estimate.

On few lanes large rTasks of the best register tile do least work; on many lanes small
ones spread more evenly. Measurements decide which is better where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from runtime_ext.cpu.kernels.blocking import row_cycles
from runtime_ext.cpu.kernels.contraction import plan_tiles
from runtime_ext.cpu.vector_space import VectorSpace
from runtime_ext.isa.isa import Isa
from runtime_ext.kernels.cut import USUAL_TILES, Blocking
from runtime_ext.kernels.spec import Contraction
from runtime_ext.kernels.tile_work import finer
from runtime_ext.units.plans import plan_unit
from runtime_ext.units.unit import UnitPlan, UnitSource

#: Returns a contraction's blocking in a tiling; None for its own.
Tiling = Callable[[Contraction, Isa], Blocking | None]

#: The estimate's error: up to this factor worse, another shape is the better trial.
_ANOTHER_SHAPE = 1.1
#: A tiling with more than this multiple of the default's work pays on no number of lanes.
_MOST_WORK = 1.5
#: Tiles of the coarse and fine tilings as a multiple of the default's, and the bounds of these
#: targets.
_FEWER, _FEWEST = 1 / 3, 8
_MORE, _MANY = 3, 3 * USUAL_TILES
#: A tiling is coarser or finer only if its number of tiles is beyond these multiples of the
#: default's.
_AT_MOST, _AT_LEAST = 2 / 3, 3 / 2


def other_plans(source: UnitSource, space: VectorSpace) -> dict[str, UnitPlan]:
    """Return plans of a unit named "coarse" and "fine": all kernels in larger or smaller tiles.

    A unit of open extents has none.
    """
    if source.is_open:
        return {}

    def plan(tiling: Tiling) -> UnitPlan:
        return plan_unit(source, space, lambda spec: tiling(spec, space.isa))

    narrow = plan(fine)
    kernels = (replace(k, spec=finer(k.spec)) for k in narrow.kernels)
    return {"coarse": plan(coarse), "fine": replace(narrow, kernels=tuple(kernels))}


def coarse(spec: Contraction, isa: Isa) -> Blocking | None:
    """Return the blocking of least work with clearly fewer tiles than the spec's own, or None."""
    tiles = plan_tiles(spec, isa).tiles
    aim = max(_FEWEST, int(_FEWER * tiles))
    for blocking in _by_work(spec, isa, aim):
        if _FEWEST <= _tiles(spec, blocking, isa) <= _AT_MOST * tiles:
            return blocking
    return None


def fine(spec: Contraction, isa: Isa) -> Blocking | None:
    """Return the blocking of least work with clearly more tiles than the spec's own, or None."""
    tiles = plan_tiles(spec, isa).tiles
    for blocking in _by_work(spec, isa, max(_MANY, _MORE * tiles)):
        if _tiles(spec, blocking, isa) >= _AT_LEAST * tiles:
            return blocking
    return None


def _by_work(spec: Contraction, isa: Isa, aim: int) -> Iterator[Blocking]:
    """Yield register tiles from least to most estimated work, the larger of equals first."""
    blocking, width = spec.blocking, spec.window.output[1]

    def work(tile: Blocking) -> tuple[float, int]:
        factor = _ANOTHER_SHAPE if tile.vectors == blocking.vectors else 1.0
        return factor * cycles[tile], -tile.pixels * tile.vectors

    cycles = row_cycles(spec, isa)
    for tile in sorted(cycles, key=work):
        if tile.pixels <= width and cycles[tile] <= _MOST_WORK * min(cycles.values()):
            yield replace(tile, tiles=aim)


def _tiles(spec: Contraction, blocking: Blocking, isa: Isa) -> int:
    return plan_tiles(replace(spec, blocking=blocking), isa).tiles
