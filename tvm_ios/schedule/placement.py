"""Placements: which rTasks of a co-scheduled stage run on which lane, in which order (plain data).

A unit's phase is a homogeneous rOperator and a tile of it an rTask (Rammer, section 3.1); a lane
is Rammer's vEU. What an rTask waits for is not written down: it follows from the data.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.graph.op_graph import OpGraph


@dataclass(frozen=True, slots=True)
class Share:
    """The rTasks ``[begin, end)`` of a phase of a unit on a lane: so many calls of Append."""

    unit: int
    phase: int
    lane: int
    begin: int
    end: int


#: Shares in the order of Append.
Placement = tuple[Share, ...]


def fault_of(graph: OpGraph, units: Sequence[int], placement: Placement) -> str | None:
    """The first rule that a placement of some units violates; None if there is none.

    The shares of a phase stand together and hold every rTask from the first on once; the phases
    of a unit follow each other; units begin in their order, and only when all phases of those
    that they read from have been appended.

    Parameters
    ----------
    graph
        The graph of units.
    units
        Those of a stage, in the order of Append. One of no code has no share.
    placement
        Where their rTasks run.

    Returns
    -------
    str or None
        The end of a sentence that begins with the stage.
    """
    place = {unit: number for number, unit in enumerate(units)}
    ranges: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for share in placement:
        if share.unit not in place:
            return f"places unit {share.unit}, which is not in it"
        if share.lane < 0 or not 0 <= share.begin < share.end:
            name = graph.operators[share.unit].name
            return (
                f"places rTasks {share.begin} to {share.end} of unit {name!r} on lane {share.lane}"
            )
        ranges.setdefault((share.unit, share.phase), []).append((share.begin, share.end))
    begun: dict[int, int] = {}
    mask, last = 0, -1
    for (unit, phase), _ in itertools.groupby(placement, lambda share: (share.unit, share.phase)):
        name = graph.operators[unit].name
        if phase != begun.get(unit, 0):
            return f"places phase {phase} of unit {name!r} where {begun.get(unit, 0)} belongs"
        if phase == 0 and place[unit] < last:
            return f"places unit {name!r} later than it says"
        if graph.successors[unit] & mask:
            return f"places unit {name!r} after one that reads from it"
        reached = 0
        for begin, end in sorted(ranges[unit, phase]):
            if begin != reached:
                return f"places rTask {min(begin, reached)} of unit {name!r} twice or not at all"
            reached = end
        begun[unit] = phase + 1
        mask |= 1 << unit
        last = max(last, place[unit])
    return None
