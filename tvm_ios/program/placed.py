"""Check a placement of units' rTasks on lanes, and emit its launches.

A placement on tiles whose number is open was found at one shape: at others each share is the same
part of the tiles, to a sixty-fourth.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.program.lane_writer import PhaseWriter
from tvm_ios.program.program import UnitCode
from tvm_ios.program.program_builder import BegunWork, LoweringError, ProgramBuilder
from tvm_ios.program.tile_ranges import cut, same
from tvm_ios.schedule.placement import Share, fault_of
from tvm_ios.schedule.stage import Stage
from tvm_ios.shapes.extent import is_open

#: Into so many parts a placement divides an open number of tiles at most.
_PARTS = 64


def reject_misfit(
    graph: OpGraph,
    stage: Stage,
    code: Mapping[int, UnitCode],
    lanes: int,
) -> None:
    """Raise LoweringError if a stage's placement does not fit its units, code or lanes."""
    placement = stage.placement or ()
    if fault := fault_of(graph, stage.units, placement):
        raise LoweringError(f"a co-scheduled stage {fault}: search again")
    tiles: dict[tuple[int, int], int] = {}
    for share in placement:
        if share.lane >= lanes:
            raise LoweringError(f"the schedule is for more lanes than {lanes}: search again")
        place = (share.unit, share.phase)
        tiles[place] = max(tiles.get(place, 0), share.end)
    calls = {(u, phase): c.tiles for u in stage.units for phase, c in enumerate(code[u].calls)}
    for unit, phase in sorted(calls.keys() | tiles.keys()):
        known, placed = calls.get((unit, phase)), tiles.get((unit, phase))
        if known is None or placed is None or not (is_open(known) or known == placed):
            raise LoweringError(
                f"the schedule places the rTasks of other kernels of unit "
                f"{graph.operators[unit].name!r}: search again"
            )


def emit_placed(
    graph: OpGraph,
    builder: ProgramBuilder,
    writer: PhaseWriter,
    stage: Stage,
    code: Mapping[int, UnitCode],
) -> None:
    """Emit the phases of a stage's units in the order of its placement.

    Units are numbered as data flows: those without launches come before their readers.
    """
    codes = {unit: code[unit] for unit in stage.units}
    begun: dict[int, BegunWork] = {}

    def begin(unit: int) -> None:
        for source in bits(graph.predecessors[unit]):
            if source in codes and source not in begun:
                begin(source)
        begun[unit] = builder.begin((unit,), codes[unit])

    for (unit, phase), shares in itertools.groupby(
        stage.placement or (), lambda s: (s.unit, s.phase)
    ):
        if unit not in begun:
            begin(unit)
        ranges = ranges_of(shares)
        tiles = codes[unit].calls[phase].tiles
        if is_open(tiles):
            ranges = _parts(ranges, tiles)
        builder.emit_phase(writer, begun[unit], phase, ranges)
    for unit in codes:
        if unit not in begun:
            begin(unit)


def ranges_of(shares: Iterable[Share]) -> list[tuple[int, int, int]]:
    """Return (lane, begin, end) of one phase's launches; adjacent shares of a lane are joined."""
    ranges: list[tuple[int, int, int]] = []
    for share in sorted(shares, key=lambda s: (s.lane, s.begin)):
        if ranges and ranges[-1][0] == share.lane and ranges[-1][2] == share.begin:
            ranges[-1] = (share.lane, ranges[-1][1], share.end)
        else:
            ranges.append((share.lane, share.begin, share.end))
    return ranges


def _parts(ranges: list[tuple[int, int, int]], tiles: int) -> list[tuple[int, int, int]]:
    """Return ranges of a number of tiles as the same parts of an open number of them."""
    known = max(end for _, _, end in ranges)
    width = min(known, _PARTS)

    def at(place: int) -> int:
        return cut(tiles, round(place * width / known), width)

    parts = ((lane, at(begin), at(end)) for lane, begin, end in ranges)
    return [(lane, begin, end) for lane, begin, end in parts if not same(begin, end)]
