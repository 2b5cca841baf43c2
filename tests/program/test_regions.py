"""Buffers that are parts of others: regions, waits, races."""

from __future__ import annotations

import pytest

from tests.refusals import refused
from tvm_ios.graph.elements import Operator, Tensor
from tvm_ios.graph.op_graph import OpGraph
from tvm_ios.program.happens_before import RaceError, check_races
from tvm_ios.program.lower import lower
from tvm_ios.program.program import (
    Buffer,
    BufferType,
    KernelUse,
    Launch,
    Part,
    PhaseCall,
    Program,
    ProgramError,
    Role,
    UnitCode,
    Wait,
)
from tvm_ios.program.program_json import program_from_json, program_to_json
from tvm_ios.program.regions import regions_of
from tvm_ios.schedule.schedule import Schedule
from tvm_ios.schedule.stage import Stage, Strategy

WHOLE = BufferType((2, 10))
NARROW = BufferType((2, 4))


def buffer(name: str, part: tuple[int, int, int] | None = None, role: Role = Role.INTERMEDIATE):
    place = None if part is None else Part(part[0], 1, part[1], part[2])
    return Buffer(name, WHOLE, role, place)


def test_parts_cut_their_whole_into_regions():
    buffers = [
        buffer("left", (1, 0, 4)),
        buffer("whole"),
        buffer("other"),
        buffer("right", (1, 4, 10)),
        buffer("middle", (1, 2, 6)),
    ]
    left, whole, other, right, middle = map(set, regions_of(buffers))
    assert left | right == whole
    assert not left & right
    assert len(middle & left) == len(middle & right) == 1
    assert middle < whole
    assert len(other) == 1
    assert not other & whole


def test_a_part_that_leaves_an_end_free():
    whole, part = map(set, regions_of([buffer("whole"), buffer("part", (0, 3, 7))]))
    assert len(whole) == 3
    assert len(part) == 1
    assert part < whole


@pytest.mark.parametrize(
    ("part", "named"),
    [
        (Part(0, 1, 4, 11), "'whole'"),
        (Part(0, 1, 4, 4), "'whole'"),
        (Part(0, 2, 0, 1), "'whole'"),
        (Part(0, 0, 0, 1), "'whole'"),  # the other part is of axis 1
        (Part(1, 1, 0, 4), "whole buffer"),
        (Part(7, 1, 0, 4), "whole buffer"),
    ],
)
def test_parts_that_cannot_be(part: Part, named: str):
    buffers = (
        buffer("whole"),
        buffer("one", (0, 0, 4)),
        Buffer("two", WHOLE, Role.INTERMEDIATE, part),
    )
    with refused(ProgramError, "'two'", named):
        Program(((),), (), buffers, ())


def test_a_part_has_the_type_of_the_whole():
    buffers = (
        buffer("whole"),
        Buffer("one", NARROW, Role.INTERMEDIATE, Part(0, 1, 0, 4)),
    )
    with refused(ProgramError, "'one'", "'whole'"):
        Program(((),), (), buffers, ())


def two_parts_and_a_reader(waits: tuple[int, ...]) -> Program:
    buffers = (
        buffer("whole"),
        buffer("left", (0, 0, 4)),
        buffer("right", (0, 4, 10)),
        buffer("result", role=Role.OUTPUT),
    )
    return Program(
        (
            (Launch(0, (1,), 0, 1, 0),),
            (Launch(0, (2,), 0, 1, 1),),
            (*(Wait(lane, 1) for lane in waits), Launch(1, (0, 3), 0, 1, 2)),
        ),
        ("write", "copy"),
        buffers,
        ("a", "b", "c"),
        (KernelUse(1, 1, (0,)), KernelUse(1, 2, (1,))),
    )


def test_writers_of_two_parts_do_not_conflict():
    check_races(two_parts_and_a_reader((0, 1)))


@pytest.mark.parametrize("waits", [(), (0,), (1,)])
def test_a_reader_of_the_whole_waits_for_all_parts(waits: tuple[int, ...]):
    with pytest.raises(RaceError):
        check_races(two_parts_and_a_reader(waits))


def test_programs_with_parts_are_plain_data():
    program = two_parts_and_a_reader((0, 1))
    assert program_from_json(program_to_json(program)) == program


@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_lowering_a_concatenation_that_nobody_runs(lanes: int):
    """Two producers write into the concatenation, whose own unit has nothing to do."""
    graph = OpGraph(
        "model",
        (
            Operator("a", "unit", (0,), (1,)),
            Operator("b", "unit", (0,), (2,)),
            Operator("concat", "unit", (1, 2), (3,)),
            Operator("c", "unit", (3,), (4,)),
        ),
        tuple(Tensor(name, (2, 10)) for name in ("x", "left", "right", "whole", "y")),
        (0,),
        (4,),
    )

    def code(symbol: str, parameters: int) -> UnitCode:
        calls = (PhaseCall(symbol, 4, tuple(range(parameters))),) if symbol else ()
        return UnitCode((WHOLE,) * parameters, 1, (), calls)

    schedule = Schedule(
        graph.fingerprint,
        (
            Stage(Strategy.CONCURRENT, ((0,), (1,))),
            Stage(Strategy.CONCURRENT, ((2,),)),
            Stage(Strategy.CONCURRENT, ((3,),)),
        ),
        policy="test",
    )
    program = lower(
        graph,
        schedule,
        {0: code("f", 2), 1: code("g", 2), 2: code("", 3), 3: code("h", 2)},
        lanes=lanes,
        parts={1: Part(3, 1, 0, 4), 2: Part(3, 1, 4, 10)},
    )
    check_races(program)
    numbers = {b.name: n for n, b in enumerate(program.buffers)}
    assert program.buffers[numbers["left"]].part == Part(numbers["whole"], 1, 0, 4)
    assert {
        program.kernels[i.kernel] for lane in program.lanes for i in lane if isinstance(i, Launch)
    } == {"f", "g", "h"}
    if lanes == 2:
        # The reader of the whole waits for the other lane's producer.
        assert all(any(isinstance(i, Wait) for i in lane) for lane in program.lanes)
