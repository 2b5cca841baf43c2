"""The accounts of runs, against brute force, on an executor that is simulated."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.explain.simulated import simulate, simulations
from tests.random_units import Case, cases
from tvm_ios.explain.bounds import (
    Bound,
    Peaks,
    critical_path,
    measure_region,
    memory_traffic,
    split_blocks,
)
from tvm_ios.explain.hot_units import hot_units
from tvm_ios.explain.intervals import length, union
from tvm_ios.explain.tasks import Work, find_work
from tvm_ios.explain.timeline import Timeline
from tvm_ios.program.arena.planner import plan_memory
from tvm_ios.program.lower import lower
from tvm_ios.program.memory_plan import MemoryPlan, planned_buffers
from tvm_ios.program.program import Launch, Program

PEAKS = Peaks(flops=1.0, bandwidth=50.0, cache=300)
Simulation = tuple[Case, Program, list[Timeline]]


def longest_chain(work: Work, inside: set[int], seconds: list[float]) -> float:
    """By walking every chain of tasks."""

    def down_to(task: int) -> float:
        needs = [need for need in work.tasks[task].needs if need in inside]
        return seconds[task] + max(map(down_to, needs), default=0.0)

    return max(map(down_to, inside), default=0.0)


def task_seconds(work: Work, run: Timeline) -> list[float]:
    """For each task the ticks in which some lane worked on it."""
    ran = {(step.lane, step.place): step for step in run.steps}
    return [
        float(
            len(
                {
                    tick
                    for place in task.launches
                    for tick in range(int(ran[place].begin), int(ran[place].end))
                }
            )
        )
        for task in work.tasks
    ]


@given(simulations())
def test_critical_paths_are_the_longest_chains(simulation: Simulation) -> None:
    _, program, runs = simulation
    work = find_work(program)
    for units in (*split_blocks(work), tuple(range(len(program.units)))):
        tasks = {n for n, task in enumerate(work.tasks) if task.unit in units}
        for run in runs:
            seconds, path = critical_path(work, tasks, run)
            assert seconds == longest_chain(work, tasks, task_seconds(work, run))
            assert set(path) <= set(units)


@given(simulations(), st.data())
def test_no_bound_is_above_what_was_seen(simulation: Simulation, data: st.DataObject) -> None:
    _, program, runs = simulation
    work = find_work(program)
    flops = data.draw(st.lists(st.integers(0, 50), min_size=len(program.units)))
    blocks = split_blocks(work)
    assert sorted(unit for units in blocks for unit in units) == list(range(len(program.units)))
    for units in (*blocks, tuple(range(len(program.units)))):
        region = measure_region(work, units, runs, flops, PEAKS)
        assert all(0 <= least <= region.seconds for least in region.bounds.values())
        assert region.ratio >= 1
        assert {Bound.CRITICAL_PATH, Bound.LANES} <= region.bounds.keys()
        shares = (region.busy, region.waiting, region.launching)
        assert all(0 <= share <= 1 + 1e-9 for share in shares)


@given(simulations())
def test_the_accounts_add_up(simulation: Simulation) -> None:
    """Every tick of every lane is of one kind, and every instant is of some block."""
    _, program, runs = simulation
    work = find_work(program)
    everything = set(range(len(program.units)))
    for run in runs:
        lanes = run.busy(everything) + sum(
            length(lane) for kind in (run.waiting, run.launching) for lane in kind
        )
        assert lanes == run.seconds * run.lanes
        assert length(run.instants(everything)) == run.seconds
        blocks = [run.instants(set(units)) for units in split_blocks(work)]
        assert length(union(i for block in blocks for i in block)) == run.seconds


@given(cases(), st.data())
def test_a_lane_alone_that_launches_at_once_is_all_busy(case: Case, data: st.DataObject) -> None:
    program = lower(case.graph, case.schedule_on(1), case.code, case.merged, lanes=1)
    ticks = st.integers(1, 9)
    run = simulate(program, lambda _: (float(data.draw(ticks)), 0.0))
    region = measure_region(find_work(program), range(len(program.units)), [run], None, PEAKS)
    assert region.seconds == region.bounds[Bound.LANES] == run.seconds
    assert (region.busy, region.waiting, region.launching) == (1, 0, 0)
    assert Bound.ARITHMETIC not in region.bounds


@given(cases(), st.data())
def test_lanes_without_end_reach_the_critical_path(case: Case, data: st.DataObject) -> None:
    """Each unit on a lane of its own, launched at once: only data keeps it waiting."""
    one = lower(case.graph, case.schedule_on(1), case.code, case.merged, lanes=1)
    work = find_work(one)
    takes = [data.draw(st.integers(1, 9)) for _ in work.tasks]
    ends: list[int] = []
    for task, duration in zip(work.tasks, takes, strict=True):
        ends.append(duration + max((ends[need] for need in task.needs), default=0))
    durations = iter(takes)
    run = simulate(one, lambda _: (float(next(durations)), 0.0))
    seconds, _ = critical_path(work, range(len(work.tasks)), run)
    assert seconds == max(ends)


def stack_distance_misses(work: Work, cache: int) -> list[int]:
    """By looking back at what was used since, for every use."""
    uses = [list(task.buffers) for task in work.tasks] * 2
    misses: list[int] = []
    for now in range(len(work.tasks), len(uses)):
        missed = 0
        for buffer in uses[now]:
            since: set[int] = set()
            for earlier in (b for use in reversed(uses[:now]) for b in reversed(use)):
                since.add(earlier)
                if earlier == buffer:
                    break
            kept = buffer in since and sum(work.buffer_bytes[b] for b in since) <= cache
            missed += 0 if kept else work.buffer_bytes[buffer]
        misses.append(missed)
    return misses


@given(cases(), st.integers(0, 1500))
def test_the_cache_keeps_what_was_used_last(case: Case, cache: int) -> None:
    program = lower(case.graph, case.schedule_on(2), case.code, case.merged, lanes=2)
    work = find_work(program)
    traffic = memory_traffic(work, cache)
    assert list(traffic) == stack_distance_misses(work, cache)
    assert sum(memory_traffic(work, sum(work.buffer_bytes))) == 0
    nothing_kept = [work.nbytes(number) for number in range(len(work.tasks))]
    assert list(memory_traffic(work, 0)) == nothing_kept


@given(cases(), st.integers(0, 1500))
def test_buffers_that_share_bytes_share_the_cache(case: Case, cache: int) -> None:
    program = lower(case.graph, case.schedule_on(2), case.code, case.merged, lanes=2)
    work = find_work(program)
    planned = planned_buffers(program)
    apart = MemoryPlan(128 * len(planned), {b: 128 * n for n, b in enumerate(planned)})
    assert memory_traffic(work, cache, apart) == memory_traffic(work, cache)
    plan = plan_memory(program).plan
    others = (b for b in range(len(program.buffers)) if b not in planned)
    everything = plan.nbytes + sum(work.buffer_bytes[b] for b in others)
    assert sum(memory_traffic(work, everything, plan)) == 0


@given(simulations())
def test_hot_units_share_the_kernel_time(simulation: Simulation) -> None:
    _, program, runs = simulation
    work = find_work(program)
    flops = list(range(len(program.units)))
    rows = hot_units(work, runs[:1], flops)
    assert sorted(unit for row in rows for unit in row.units) == flops
    assert sum(row.flops or 0 for row in rows) == sum(flops)
    busy = runs[0].busy(set(flops))
    assert math.isclose(sum(row.seconds for row in rows) * runs[0].lanes, busy)
    assert [row.seconds for row in rows] == sorted((row.seconds for row in rows), reverse=True)
    if busy:
        assert sum(row.share for row in rows) == pytest.approx(1)


def test_equal_code_is_one_entry() -> None:
    """Two units of one kernel, one after another on both lanes."""
    from tests.random_units import VECTOR
    from tvm_ios.program.program import Buffer, Role

    buffers = tuple(
        Buffer(name, VECTOR, role)
        for name, role in (("x", Role.INPUT), ("t", Role.INTERMEDIATE), ("y", Role.OUTPUT))
    )
    program = Program(
        ((Launch(0, (0, 1), 0, 4, 0), Launch(0, (1, 2), 0, 4, 1)),), ("k",), buffers, ("a", "b")
    )
    run = simulate(program, lambda _: (2.0, 1.0))
    (row,) = hot_units(find_work(program), [run], [10, 10])
    assert (row.units, row.kernels, row.seconds, row.share) == ((0, 1), ("k",), 4.0, 1.0)
    assert (row.flops, row.nbytes) == (20, 4 * 12 * 8)
