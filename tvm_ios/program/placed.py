"""Check a placement of units' rTasks on lanes, and emit its launches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.program.lane_writer import PhaseWriter
from tvm_ios.program.program import UnitCode
from tvm_ios.program.program_builder import BegunWork, LoweringError, ProgramBuilder
from tvm_ios.schedule.placement import Share, fault_of
from tvm_ios.schedule.stage import Stage
from tvm_ios.shapes.extent import is_open


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
    for unit in stage.units:
        if any(is_open(call.tiles) for call in code[unit].calls):
            raise LoweringError(
                f"a co-scheduled stage places the tiles of unit {graph.operators[unit].name!r}, "
                "whose number depends on the shape"
            )
    calls = {(u, phase): c.tiles for u in stage.units for phase, c in enumerate(code[u].calls)}
    for unit, phase in sorted(calls.keys() | tiles.keys()):
        if calls.get((unit, phase)) != tiles.get((unit, phase)):
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
        builder.emit_phase(writer, begun[unit], phase, ranges_of(shares))
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
