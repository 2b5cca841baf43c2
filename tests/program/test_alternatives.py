"""Programs with other lanes in boxes of their shapes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.open_program import BOX, open_program, program_with_a_box, values_of
from tests.refusals import refused
from tvm_ios.program.alternatives import with_alternatives, with_lanes_of
from tvm_ios.program.arena.open_plan import check_open_arena, plan_open
from tvm_ios.program.happens_before import RaceError, check_races
from tvm_ios.program.one_lane import on_one_lane
from tvm_ios.program.program import Launch, ProgramError, Wait
from tvm_ios.program.program_json import program_from_json, program_to_json


def test_a_shape_in_the_box_has_its_lanes() -> None:
    program, inside, outside = program_with_a_box(), values_of(2, 20, 1), values_of(2, 21, 1)
    first, other = open_program(2), open_program(2, side_by_side=True)
    assert program.at(outside).lanes == first.at(outside).lanes
    assert len(program.at(inside).lanes[1]) == len(other.at(inside).lanes[1])
    assert program.at(inside).lanes != first.at(inside).lanes
    assert not program.at(inside).alternatives


def test_other_numbers_of_buffers_kernels_and_units_become_the_programs() -> None:
    first, other = open_program(2), open_program(2, side_by_side=True)
    order = list(reversed(range(len(other.buffers))))
    place = {buffer: number for number, buffer in enumerate(order)}

    def moved(item: Launch | Wait) -> Launch | Wait:
        if isinstance(item, Wait):
            return item
        return replace(item, buffers=tuple(place[b] for b in item.buffers))

    shuffled = replace(
        other,
        buffers=tuple(other.buffers[b] for b in order),
        lanes=tuple(tuple(map(moved, lane)) for lane in other.lanes),
    )
    program, lanes = with_lanes_of(first, shuffled)
    assert with_alternatives(program, [(BOX, lanes)]) == program_with_a_box()


def test_files_keep_alternatives() -> None:
    program = program_with_a_box()
    data = json.loads(json.dumps(program_to_json(program)))
    assert program_from_json(data) == program


def test_one_lane_has_no_alternatives() -> None:
    assert not on_one_lane(program_with_a_box()).alternatives


def test_a_race_in_an_alternative_is_found() -> None:
    program = program_with_a_box()
    (alternative,) = program.alternatives
    lanes = tuple(
        tuple(item for item in lane if isinstance(item, Launch)) for lane in alternative.lanes
    )
    check_races(program)
    broken = replace(program, alternatives=(replace(alternative, lanes=lanes),))
    with refused(RaceError, "no wait orders them"):
        check_races(broken)


def test_buffers_share_bytes_only_where_all_lanes_let_them() -> None:
    program = program_with_a_box()
    plan = plan_open(program)
    check_open_arena(program, plan)
    alone = plan_open(open_program(2))
    assert sum(map(len, plan.conflicts)) >= sum(map(len, alone.conflicts))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda a: replace(a, box={"rows": (1, 2)}), "does not name its symbols"),
        (lambda a: replace(a, lanes=a.lanes[:1]), "not as many for every shape"),
        (
            lambda a: replace(a, lanes=((*a.lanes[0], Wait(1, 99)), a.lanes[1])),
            "waits for launch 99",
        ),
    ],
)
def test_an_alternative_that_cannot_run_is_refused(change: object, sentence: str) -> None:
    program = program_with_a_box()
    (alternative,) = program.alternatives
    with refused(ProgramError, sentence):
        replace(program, alternatives=(change(alternative),))  # type: ignore[operator]


def test_lanes_of_other_units_are_no_alternative() -> None:
    program = open_program(2)
    other = replace(program, units=tuple(f"other {name}" for name in program.units))
    with refused(ProgramError, "other units"):
        with_lanes_of(program, other)
