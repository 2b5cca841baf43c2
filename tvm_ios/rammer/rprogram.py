"""Construction of rPrograms: Append, and the choice of lanes for rTasks.

The simulation is that of the list schedule: a lane executes its rTasks in the order of Append, each
as soon as the lane is free and all that its unit reads has been computed. rTasks of a phase are
alike, so only how many of them a lane executes matters: it gets a range.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tvm_ios.graph.op_graph import OpGraph, bits
from tvm_ios.schedule.placement import Placement, Share
from tvm_ios.schedule.rkernel import RKernel


@dataclass(frozen=True, slots=True)
class RProgram:
    """A program that is emitted to the device at once (Rammer, section 3.2); immutable."""

    #: Units in the order of Append.
    units: tuple[int, ...]
    #: For each unit the rKernel that computes it.
    kernels: Mapping[int, RKernel]
    #: The lanes on which the rTasks run.
    placement: Placement
    #: For each lane the simulated second at which it has executed its rTasks.
    clocks: tuple[float, ...]
    #: For each unit the simulated second at which its last rTask ends.
    ends: Mapping[int, float]

    @staticmethod
    def empty(lanes: int) -> RProgram:
        """Return a program without units."""
        return RProgram((), {}, (), (0.0,) * lanes, {})

    def append(
        self, graph: OpGraph, wave: Sequence[int], chosen: Mapping[int, RKernel]
    ) -> RProgram:
        """Return this program followed by a wave of units that do not read from each other.

        The phases of a unit are rOperators that depend on each other, so the wave's first phases
        come first, then all second ones. Units that are in no wave so far were computed before the
        program. ``chosen`` are the rKernels of the wave's units.
        """
        clocks = list(self.clocks)
        shares: list[Share] = []
        ends = dict(self.ends)
        for unit in wave:
            before = (ends[p] for p in bits(graph.predecessors[unit]) if p in ends)
            ends[unit] = max(before, default=0.0)
        for phase in range(max(len(kernel.tasks) for kernel in chosen.values())):
            for unit in wave:
                if phase >= len(chosen[unit].tasks):
                    continue
                tasks, seconds = chosen[unit].tasks[phase], chosen[unit].task_seconds[phase]
                counts = select_lanes(clocks, ends[unit], tasks, seconds)
                begin, ready = 0, ends[unit]
                for lane, count in enumerate(counts):
                    if count:
                        shares.append(Share(unit, phase, lane, begin, begin + count))
                        clocks[lane] = max(clocks[lane], ready) + count * seconds
                        ends[unit] = max(ends[unit], clocks[lane])
                        begin += count
        return RProgram(
            units=(*self.units, *wave),
            kernels={**self.kernels, **{unit: chosen[unit] for unit in wave}},
            placement=(*self.placement, *shares),
            clocks=tuple(clocks),
            ends=ends,
        )


def simulate(programs: Sequence[RProgram]) -> tuple[float, ...]:
    """Return the seconds of rPrograms if every rTask takes as long as it was profiled."""
    return tuple(max(program.clocks) for program in programs)


def simulated_spans(
    predecessors: Sequence[int], program: RProgram
) -> tuple[tuple[Share, float, float], ...]:
    """Return the simulated begin and end, in seconds, of each share of an rProgram's placement.

    ``predecessors`` holds for each unit of the graph the bit set of those that it reads from.
    """
    clocks = [0.0] * len(program.clocks)
    #: For each unit the second at which its last rTask so far ends.
    ends: dict[int, float] = {}
    spans: list[tuple[Share, float, float]] = []
    shares = groupby(program.placement, lambda share: (share.unit, share.phase))
    for (unit, phase), same in shares:
        before = [ends[p] for p in bits(predecessors[unit]) if p in ends]
        ready = ends[unit] if phase else max(before, default=0.0)
        for share in same:
            begin = max(clocks[share.lane], ready)
            seconds = program.kernels[unit].task_seconds[phase]
            clocks[share.lane] = begin + (share.end - share.begin) * seconds
            ends[unit] = max(ends.get(unit, 0.0), clocks[share.lane])
            spans.append((share, begin, clocks[share.lane]))
    return tuple(spans)


def select_lanes(
    clocks: Sequence[float], ready: float, tasks: int, seconds: float
) -> tuple[int, ...]:
    """Return the number of a phase's rTasks that each lane gets (SelectvEU).

    One after another they go to the lane that can begin them earliest; of several, to the one that
    idles least before, then to the first. The ``k``-th that a lane gets begins ``k`` times
    ``seconds`` after the lane can begin at all. ``clocks`` are the times at which lanes become
    free, ``ready`` is when the rTasks may begin, and ``seconds`` the time of each.
    """
    starts = [max(clock, ready) for clock in clocks]
    counts = _certain(starts, tasks, seconds)
    queue = [
        (start + count * seconds, 0.0 if count else start - clock, lane)
        for lane, (start, count, clock) in enumerate(zip(starts, counts, clocks, strict=True))
    ]
    heapq.heapify(queue)
    for _ in range(tasks - sum(counts)):
        lane = queue[0][2]
        counts[lane] += 1
        heapq.heapreplace(queue, (starts[lane] + counts[lane] * seconds, 0.0, lane))
    return tuple(counts)


def _certain(starts: Sequence[float], tasks: int, seconds: float) -> list[int]:
    """Return the rTasks that each lane gets however ties are broken: all but about two a lane.

    Were rTasks divisible, all lanes would end at one level. Fewer than all rTasks begin one
    ``seconds`` below it, so none of these waits for another choice; one less a lane is safe from
    rounding.
    """
    if tasks <= 2 * len(starts) or seconds <= 0:
        return [0] * len(starts)
    level = total = 0.0
    for used, start in enumerate(sorted(starts), 1):
        if used > 1 and start >= level:
            break
        total += start
        level = (total + tasks * seconds) / used
    return [max(0, int((level - start) / seconds) - 1) for start in starts]
