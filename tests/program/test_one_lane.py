"""A program on one lane does the same work, in an order that the program itself may have taken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.execution.session import Session
from tests.program.arena.small_programs import programs
from tests.random_units import Case, cases, random_inputs
from tvm_ios.program.arena.check import check_arena
from tvm_ios.program.arena.planner import plan_quickly
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.lower import lower
from tvm_ios.program.one_lane import on_one_lane
from tvm_ios.program.program import Buffer, BufferType, Launch, Program, Role, Wait


def tiles_of(program: Program) -> Iterator[tuple[int, tuple[int, ...], int, int]]:
    for lane in program.lanes:
        for item in lane:
            if isinstance(item, Launch):
                for tile in range(item.begin, item.end):
                    yield item.kernel, item.buffers, item.unit, tile


@given(cases(), st.integers(1, 4), st.integers(0, 1000))
def test_it_computes_the_same(case: Case, lanes: int, seed: int) -> None:
    program = lower(case.graph, case.schedule_on(lanes), case.code, case.merged, lanes=lanes)
    alone = on_one_lane(program)
    assert len(alone.lanes) == 1
    assert Counter(tiles_of(alone)) == Counter(tiles_of(program))
    check_races(alone)
    session = Session(alone, case.functions(), case.constants, plan=plan_quickly(alone).plan)
    session.run(**random_inputs(case.graph, seed))
    for name, value in case.expected(random_inputs(case.graph, seed)).items():
        np.testing.assert_array_equal(session.get_output(name), value)
    session.close()


@given(programs(most_buffers=5))
def test_every_memory_plan_stays_safe(program: Program) -> None:
    check_arena(on_one_lane(program), plan_quickly(program).plan)


def test_tiles_of_one_launch_are_joined() -> None:
    buffers = tuple(Buffer(name, BufferType((8,)), Role.OUTPUT) for name in "xyz")
    program = Program(
        (
            (Launch(0, (0, 1), 0, 4, 0), Wait(1, 1), Launch(1, (1, 2), 0, 3, 1)),
            (Launch(0, (0, 1), 4, 8, 0), Wait(0, 1), Launch(1, (1, 2), 3, 8, 1)),
        ),
        ("k", "l"),
        buffers,
        ("u", "v"),
    )
    assert on_one_lane(program).lanes == ((Launch(0, (0, 1), 0, 8, 0), Launch(1, (1, 2), 0, 8, 1)),)
