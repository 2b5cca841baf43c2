"""Whether what one lane alone uses lies in this lane's region of the arena."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tvm_ios.program.happens_before import ordered_launches
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Program, ProgramError


def check_regions(program: Program, plan: MemoryPlan, regions: Sequence[range]) -> None:
    """Check that what one lane alone uses lies in this lane's region of the arena.

    Parameters
    ----------
    program, plan
        As of :func:`tvm_ios.program.arena.check.check_arena`.
    regions
        For each lane its bytes.

    Raises
    ------
    ProgramError
        If two regions overlap, or naming the first buffer that lies outside.
    """
    borders = sorted((r.start, r.stop) for r in regions)
    if any(end > begin for (_, end), (begin, _) in pairwise(borders)):
        raise ProgramError("the regions of two lanes share bytes")
    users: dict[int, set[int]] = {b: set() for b in plan.offsets}
    for lane, _, _, launch in ordered_launches(program):
        for buffer in {program.whole_of(b) for b in launch.buffers} & users.keys():
            users[buffer].add(lane)
    for buffer, lanes in users.items():
        begin = plan.offsets[buffer]
        end = begin + program.buffers[buffer].type.nbytes
        if len(lanes) == 1 and begin < end:
            region = regions[min(lanes)]
            if not region.start <= begin <= end <= region.stop:
                name = program.buffers[buffer].name
                raise ProgramError(f"buffer {name!r} lies outside the region of its only lane")
