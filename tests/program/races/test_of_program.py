"""Races of programs by the bytes of their buffers: the verdicts of the checks that they have."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.program.test_happens_before import Step, build, steps
from tests.random_units import VECTOR
from tvm_ios.program.arena.check import check_arena
from tvm_ios.program.happens_before import RaceError, check_races
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Buffer, BufferType, KernelUse, Launch, Part, Program, Role
from tvm_ios.program.races.of_program import plan_of_program
from tvm_ios.program.races.plan import PlanError, find_races

NOTHING = MemoryPlan(0, {})


@given(steps, st.data())
def test_verdict_is_that_of_the_programs_own_check(
    sequence: list[Step], data: st.DataObject
) -> None:
    pairs = list(itertools.combinations(range(len(sequence)), 2))
    waits = data.draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    program = build(sequence, waits)
    races = find_races(plan_of_program(program, NOTHING))
    if races:
        with pytest.raises(RaceError):
            check_races(program)
    else:
        check_races(program)


def two(first: Buffer, second: Buffer, *others: Buffer) -> Program:
    """Return a program of two lanes, which write a buffer each."""
    lanes = ((Launch(0, (0,), 0, 1, 0),), (Launch(0, (1,), 0, 1, 1),))
    return Program(lanes, ("k",), (first, second, *others), ("u", "v"), (KernelUse(1, 1, (0,)),))


def test_buffers_that_share_bytes_of_the_arena() -> None:
    a, b = (Buffer(name, VECTOR, Role.INTERMEDIATE) for name in "ab")
    program, size = two(a, b), VECTOR.nbytes
    apart = MemoryPlan(2 * size + 64, {0: 0, 1: -(-size // 64) * 64})
    assert not find_races(plan_of_program(program, apart))
    check_arena(program, apart)
    shared = MemoryPlan(size, {0: 0, 1: 0})
    (race,) = find_races(plan_of_program(program, shared))
    assert (race.buffers, race.writes) == (("a", "b"), (True, True))
    assert race.first == "launch 1 of lane 0 (unit 'u')"
    with pytest.raises(RaceError):
        check_arena(program, shared)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_parts_of_a_buffer_along_any_axis(axis: int) -> None:
    kind = BufferType((2, 4, 6))

    def part(name: str, begin: int, end: int) -> Buffer:
        return Buffer(name, kind, Role.INTERMEDIATE, Part(2, axis, begin, end))

    whole = Buffer("whole", kind, Role.INTERMEDIATE)
    half = kind.shape[axis] // 2
    memory = MemoryPlan(256, {2: 0})
    beside = two(part("a", 0, half), part("b", half, kind.shape[axis]), whole)
    assert not find_races(plan_of_program(beside, memory))
    check_races(beside)
    over = two(part("a", 0, half), part("b", half - 1, kind.shape[axis]), whole)
    (race,) = find_races(plan_of_program(over, memory))
    assert race.buffers == ("a", "b")
    with pytest.raises(RaceError):
        check_races(over)


def test_a_program_that_does_not_say_what_it_writes_is_refused() -> None:
    program = replace(two(*(Buffer(n, VECTOR, Role.OUTPUT) for n in "ab")), uses=())
    with pytest.raises(PlanError, match="does not say"):
        plan_of_program(program, NOTHING)
