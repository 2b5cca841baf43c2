"""Placements: the order and lanes of the rTasks of a co-scheduled stage (plain data).

A phase of a unit is a homogeneous rOperator, a tile of it an rTask (Rammer, section 3.1); a lane is
Rammer's vEU. Dependencies of rTasks are not stored, since they follow from the data.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_ios.graph.op_graph import OpGraph


@dataclass(frozen=True, slots=True)
class Share:
    """The rTasks ``[begin, end)`` of a unit's phase on a lane: that many calls of Append."""

    unit: int
    phase: int
    lane: int
    begin: int
    end: int


#: Shares in the order of Append.
Placement = tuple[Share, ...]


def fault_of(graph: OpGraph, units: Sequence[int], placement: Placement) -> str | None:
    """Return the first rule that a placement violates, as the end of a sentence, or None.

    The shares of a phase are adjacent and cover its rTasks from 0 on exactly once; phases of a unit
    are in order; units begin in the order of ``units``, after all phases of those that they read
    from. ``units`` are those of the stage in the order of Append; units without code have no share.
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
