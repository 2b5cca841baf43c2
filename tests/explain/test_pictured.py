"""What pictures show of a run: memory in use, waits, and the time of units."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given

from tests.explain.simulated import simulations
from tests.random_units import Case
from tvm_ios.explain.arena_use import arena_use, least_arena
from tvm_ios.explain.tasks import find_work
from tvm_ios.explain.timeline import Timeline
from tvm_ios.explain.unit_times import unit_times
from tvm_ios.explain.waits import awaited_launches
from tvm_ios.program.arena.planner import plan_memory
from tvm_ios.program.memory_plan import planned_buffers
from tvm_ios.program.program import Launch, Program

Simulation = tuple[Case, Program, list[Timeline]]


@given(simulations())
def test_memory_in_use_is_that_of_the_buffers_between_their_launches(
    simulation: Simulation,
) -> None:
    _, program, runs = simulation
    run = runs[0]
    launches = [[item for item in lane if isinstance(item, Launch)] for lane in program.lanes]
    spans: dict[int, list[float]] = {}
    for step in run.steps:
        for buffer in launches[step.lane][step.place].buffers:
            if program.whole_of(buffer) in planned_buffers(program):
                spans.setdefault(program.whole_of(buffer), []).extend((step.begin, step.end))
    steps = arena_use(find_work(program), run)
    assert [second for second, _ in steps] == sorted(second for second, _ in steps)
    assert steps[0] == (0.0, 0)
    assert steps[-1][1] == 0
    for (second, in_use), (until, _) in itertools.pairwise(steps):
        middle = (second + until) / 2
        needed = [b for b, times in spans.items() if min(times) <= middle < max(times)]
        if second < until:
            assert in_use == sum(program.buffers[b].type.nbytes for b in needed)
    memory = plan_memory(program)
    assert max(nbytes for _, nbytes in steps) <= memory.plan.nbytes
    assert least_arena(program) == memory.bound


@given(simulations())
def test_a_wait_costs_no_more_than_its_lane_waited(simulation: Simulation) -> None:
    _, program, runs = simulation
    steps = {(step.lane, step.place): step for step in runs[0].steps}
    longest: dict[tuple[int, int], float] = {}
    for wait in awaited_launches(program, runs[0]):
        source, after = steps[wait.lane, wait.place], steps[wait.by_lane, wait.by_place]
        assert wait.lane != wait.by_lane
        assert source.end <= after.begin
        assert wait.seconds >= 0
        place = (wait.by_lane, wait.by_place)
        longest[place] = max(longest.get(place, 0.0), wait.seconds)
    # The last of a launch's waits is what its lane waited for.
    for place, step in steps.items():
        assert longest.get(place, 0.0) == pytest.approx(step.ready - step.free)


@given(simulations())
def test_times_of_units_add_up_to_the_time_of_the_lanes(simulation: Simulation) -> None:
    _, program, runs = simulation
    times = unit_times(len(program.units), runs[:1])
    everything = range(len(program.units))
    assert sum(time.lane_seconds for time in times) == pytest.approx(runs[0].busy(everything))
    for unit, time in enumerate(times):
        assert time.lane_seconds == pytest.approx(runs[0].busy({unit}))
        assert time.seconds <= time.lane_seconds <= time.seconds * len(program.lanes) + 1e-9
