"""Plans are safe, never below the bound, and optimal where they say so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fast_run import examples
from tests.program.arena.small_programs import (
    conflicting,
    heaviest,
    programs,
    rounded,
    smallest_arena,
)
from tests.random_units import Case, cases
from tests.refusals import refused
from tvm_ios.program.arena.check import check_arena
from tvm_ios.program.arena.lifetimes import lifetimes
from tvm_ios.program.arena.planner import plan_lifetimes, plan_memory
from tvm_ios.program.arena.solver import SolverLimits, solve
from tvm_ios.program.happens_before import RaceError
from tvm_ios.program.lower import lower
from tvm_ios.program.memory_plan import MemoryPlan, planned_buffers
from tvm_ios.program.program import Buffer, BufferType, Launch, Program, ProgramError, Role

few = examples(60)


@few
@given(programs(most_buffers=5))
def test_plans_are_safe_and_optimal(program: Program) -> None:
    memory = plan_memory(program)
    check_arena(program, memory.plan)
    assert heaviest(program) <= memory.bound == memory.plan.nbytes <= memory.unshared
    assert memory.unshared == sum(rounded(program, b) for b in planned_buffers(program))
    assert memory.proven
    assert memory.plan.nbytes == smallest_arena(program)
    assert plan_memory(program) == memory


@few
@given(
    programs(most_buffers=5),
    st.booleans(),
    st.sampled_from([SolverLimits(), SolverLimits(0), SolverLimits(seconds=30)]),
)
def test_the_solvers_find_the_optimum(
    program: Program, bounded: bool, limits: SolverLimits
) -> None:
    times = lifetimes(program)
    unshared = np.cumsum(times.sizes) - times.sizes
    bound = heaviest(program) if bounded else 0
    offsets, least = solve(times, times.conflicts(), unshared, bound, limits)
    assert (offsets + times.sizes).max() == smallest_arena(program) == least
    check_arena(program, _plan(program, dict(zip(times.buffers, offsets, strict=True))))


@few
@given(programs(most_buffers=5), st.integers(1, 30))
def test_a_capacity_is_kept_to_where_some_plan_fits(program: Program, blocks: int) -> None:
    memory = plan_lifetimes(lifetimes(program), SolverLimits(seconds=30, enough=64 * blocks))
    check_arena(program, memory.plan)
    least = smallest_arena(program)
    assert memory.bound <= least
    assert (memory.plan.nbytes <= 64 * blocks) == (least <= 64 * blocks)
    assert least <= 64 * blocks or memory.bound > 64 * blocks


def test_the_solver_improves_on_best_fit() -> None:
    """First and last step, and size in blocks: best-fit needs 7 blocks in every order, not 6."""
    lives = [(5, 6, 3), (0, 2, 3), (3, 6, 1), (2, 5, 1), (2, 3, 2)]
    buffers = tuple(
        Buffer(f"b{n}", BufferType((16 * size,)), Role.INTERMEDIATE)
        for n, (_, _, size) in enumerate(lives)
    )
    lane = tuple(
        Launch(0, tuple(n for n, life in enumerate(lives) if step in life[:2]), 0, 1, 0)
        for step in range(7)
    )
    program = Program((lane,), ("k",), buffers, ("u",))
    memory = plan_memory(program)
    assert (memory.plan.nbytes, memory.bound, memory.proven) == (6 * 64, 6 * 64, True)
    hurried = plan_lifetimes(lifetimes(program), SolverLimits(0, 0.0))
    assert (hurried.plan.nbytes, hurried.bound, hurried.proven) == (7 * 64, 6 * 64, False)
    check_arena(program, hurried.plan)


def test_a_program_without_buffers_and_one_with_a_buffer_that_nothing_uses() -> None:
    empty = plan_memory(Program(((),), (), (), ()))
    assert (empty.plan, empty.proven, empty.ratio) == (MemoryPlan(0, {}), True, 1)
    unused = Buffer("unused", BufferType((100,)), Role.SCRATCH)
    program = Program(((),), (), (unused, unused), ())
    assert plan_memory(program).plan == MemoryPlan(448, {0: 0, 1: 0})


def test_plans_that_do_not_fit_are_refused() -> None:
    program = Program(((),), (), (Buffer("b", BufferType((100,)), Role.SCRATCH),), ())
    for nbytes_, offset in ((448, 32), (448, 64), (399, 0)):
        with refused(ProgramError, "'b'", f"byte {offset} of {nbytes_}"):
            check_arena(program, MemoryPlan(nbytes_, {0: offset}))
    check_arena(program, MemoryPlan(400, {0: 0}))


@few
@given(programs(), st.data())
def test_the_check_equals_brute_force(program: Program, data: st.DataObject) -> None:
    offsets = {b: data.draw(st.integers(0, 8)) * 64 for b in planned_buffers(program)}
    plan = _plan(program, offsets)
    sharing = {
        frozenset((program.buffers[a].name, program.buffers[b].name))
        for a, b in conflicting(program)
        if offsets[a] < offsets[b] + program.buffers[b].type.nbytes
        and offsets[b] < offsets[a] + program.buffers[a].type.nbytes
    }
    if not sharing:
        check_arena(program, plan)
        return
    with pytest.raises(RaceError) as caught:
        check_arena(program, plan)
    assert frozenset(str(caught.value).split("'")[1:4:2]) in sharing


@few
@given(cases(), st.integers(1, 8))
def test_plans_of_lowered_programs_are_tight(case: Case, lanes: int) -> None:
    """A buffer moved onto one that is in use at the same time is always objected to."""
    program = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    memory = plan_memory(program)
    check_arena(program, memory.plan)
    assert memory.proven
    for pair in conflicting(program):
        one, other = sorted(pair)
        moved = dict(memory.plan.offsets) | {one: memory.plan.offsets[other]}
        with refused(RaceError, "buffers", "share"):
            check_arena(program, _plan(program, moved))


def _plan(program: Program, offsets: dict[int, int]) -> MemoryPlan:
    """A plan in an arena that is large enough."""
    ends = (offset + rounded(program, buffer) for buffer, offset in offsets.items())
    return MemoryPlan(max(ends, default=0), {int(b): int(o) for b, o in offsets.items()})
