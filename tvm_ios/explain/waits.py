"""The waits between lanes in a run, and the idle time that each caused."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_ios.explain.timeline import Timeline
from tvm_ios.program.program import Program, Wait


@dataclass(frozen=True, slots=True)
class Awaited:
    """A wait of one lane for a launch of another, as it went in a run.

    ``lane`` and ``place`` are those of the awaited launch, ``by_lane`` and ``by_place`` those of
    the launch that comes after the wait (places count among a lane's launches). ``seconds`` is the
    time in which the waiting lane had nothing to do; 0 if the launch had ended before.
    """

    lane: int
    place: int
    by_lane: int
    by_place: int
    seconds: float


def awaited_launches(program: Program, run: Timeline) -> tuple[Awaited, ...]:
    """Return the waits of a program that a launch follows, lane by lane, with their costs in a run.

    Waits for no launch, and for a lane's own launches, are left out.
    """
    steps = {(step.lane, step.place): step for step in run.steps}
    result: list[Awaited] = []
    for lane, items in enumerate(program.lanes):
        place = 0
        before: list[Wait] = []
        for item in items:
            if isinstance(item, Wait):
                if item.launches and item.lane != lane:
                    before.append(item)
                continue
            after = steps[lane, place]
            for wait in before:
                source = steps[wait.lane, wait.launches - 1]
                idle = max(0.0, min(source.end, after.ready) - after.free)
                result.append(Awaited(wait.lane, wait.launches - 1, lane, place, idle))
            before.clear()
            place += 1
    return tuple(result)
