"""An executor without machine: launches take given times, lanes wait as programs say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.random_units import Case, cases
from tvm_ios.explain.timeline import Timeline, read_timeline
from tvm_ios.program.happens_before import ordered_launches
from tvm_ios.program.lower import lower
from tvm_ios.program.program import Launch, Program, Wait

#: Seconds of a launch, and seconds that its lane needs before it.
Seconds = Callable[[Launch], tuple[float, float]]


@dataclass(frozen=True)
class Span:
    lane: int
    launch: int
    begin: float
    end: float
    held_up: float = 0.0
    runner: int = -1


def simulate(program: Program, seconds: Seconds) -> Timeline:
    """Run a program: a lane goes on as soon as what it waits for has ended."""
    waits: dict[tuple[int, int], list[Wait]] = {}
    for lane, items in enumerate(program.lanes):
        place = 0
        for item in items:
            if isinstance(item, Wait):
                waits.setdefault((lane, place), []).append(item)
            else:
                place += 1
    ends: dict[tuple[int, int], float] = {}
    spans: list[Span] = []
    for lane, finished, _, launch in ordered_launches(program):
        place = finished - 1
        free = ends.get((lane, place - 1), 0.0)
        needed = [ends[w.lane, w.launches - 1] for w in waits.get((lane, place), []) if w.launches]
        takes, before = seconds(launch)
        begin = max([free, *needed]) + before
        ends[lane, place] = begin + takes
        spans.append(Span(lane, place, begin, begin + takes))
    return read_timeline(program, spans)


@st.composite
def simulations(draw: st.DrawFn) -> tuple[Case, Program, list[Timeline]]:
    """A random case on one to four lanes, run a few times with random launch times."""
    case = draw(cases())
    lanes = draw(st.integers(1, 4))
    program = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    ticks = st.integers(0, 20)

    def seconds(_: Launch) -> tuple[float, float]:
        # Whole numbers add up exactly.
        return float(draw(ticks)), float(draw(ticks))

    return case, program, [simulate(program, seconds) for _ in range(draw(st.integers(1, 5)))]
