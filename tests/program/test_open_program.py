"""Programs whose shapes, tiles and ranges depend on symbols."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.open_program import PITCH, SYMBOLS, B, L, open_code, open_graph, open_program, values_of
from tests.program.arena.small_programs import conflicting
from tests.refusals import refused
from tvm_ios.program.arena.check import check_arena
from tvm_ios.program.arena.open_plan import (
    OpenMemoryPlan,
    check_open_arena,
    plan_open,
    read_plan,
)
from tvm_ios.program.arena.planner import plan_quickly
from tvm_ios.program.happens_before import RaceError, check_races
from tvm_ios.program.lower import lower_stages
from tvm_ios.program.memory_plan import planned_buffers
from tvm_ios.program.one_lane import on_one_lane
from tvm_ios.program.program import (
    Buffer,
    BufferType,
    KernelUse,
    Launch,
    Part,
    Program,
    ProgramError,
    Role,
    Wait,
)
from tvm_ios.program.program_builder import LoweringError
from tvm_ios.program.program_json import program_from_json, program_to_json
from tvm_ios.program.regions import regions_of
from tvm_ios.program.tile_ranges import at_most, cut, fits, same
from tvm_ios.schedule.placement import Share
from tvm_ios.schedule.stage import Stage, Strategy
from tvm_ios.shapes.extent import Symbol, evaluate, extent_of, is_open

shapes = st.builds(
    values_of, *(st.integers(s.least, s.most) for s in (SYMBOLS[2], SYMBOLS[0], SYMBOLS[1]))
)
lanes = st.integers(1, 3)

HUGE = Symbol("huge", 1, 1 << 20, 1 << 10)
WIDE = Symbol("wide", 1, 1 << 12, 1 << 6)
H, V = extent_of(HUGE), extent_of(WIDE)
TILES = [
    B,
    B * 2,
    (L + 3) // 4,
    B * ((L + 5) // 6),
    H,
    H * ((V + 15) // 16),
    (H * V + 6) // 7,
    L - 1,
]


@pytest.mark.parametrize("tiles", TILES, ids=str)
@pytest.mark.parametrize("width", [1, 2, 3, 5, 16])
def test_cuts_are_in_order_in_every_shape(tiles: int, width: int) -> None:
    cuts = [cut(tiles, place, width) for place in range(width + 1)]
    assert same(cuts[0], 0)
    assert same(cuts[-1], tiles)
    for before, after in pairwise(cuts):
        assert fits(before, after, tiles)
        if not same(before, after):
            assert not at_most(after, before, tiles)
    for first in range(width):
        for later in range(first + 1, width):
            assert at_most(cuts[first + 1], cuts[later], tiles)


@given(lanes, shapes)
def test_a_program_at_a_shape_has_the_structure_of_the_open_one(
    lanes: int, values: dict[str, int]
) -> None:
    program = open_program(lanes, side_by_side=lanes == 2)
    assert program.symbols == SYMBOLS
    check_races(program)
    concrete = program.at(values)
    assert concrete.symbols == ()
    assert concrete.at({}) is concrete
    check_races(concrete)
    for ours, theirs in zip(program.lanes, concrete.lanes, strict=True):
        for item, known in zip(ours, theirs, strict=True):
            if isinstance(item, Wait) or isinstance(known, Wait):
                assert item == known
                continue
            names = program.uses[item.kernel].scalars
            assert known.scalars == tuple(values[name] for name in names)
            assert (known.begin, known.end) == (
                evaluate(item.begin, values),
                evaluate(item.end, values),
            )
    covered: dict[int, list[tuple[int, int]]] = {}
    for item in (item for lane in concrete.lanes for item in lane):
        if isinstance(item, Launch):
            covered.setdefault(item.kernel, []).append((item.begin, item.end))
    for kernel, ranges in covered.items():
        tiles = [tile for begin, end in ranges for tile in range(begin, end)]
        assert sorted(tiles) == list(range(concrete.uses[kernel].tiles))


@given(st.integers(1, 2), shapes)
def test_on_one_lane_cuts_are_joined_again(lanes: int, values: dict[str, int]) -> None:
    program = open_program(lanes)
    alone = on_one_lane(program)
    launches = [item for item in alone.lanes[0] if isinstance(item, Launch)]
    # The last two units do not wait for one another.
    assert [item.kernel for item in launches[:3]] == [0, 1, 2]
    assert [(item.begin, item.end) for item in launches[:3]] == [
        (0, use.tiles) for use in alone.uses[:3]
    ]
    check_races(alone)
    assert alone.at(values).symbols == ()


def test_a_program_outside_of_its_range_is_refused() -> None:
    program = open_program(2)
    with refused(ProgramError, "rows", 10, "1 to 9"):
        program.at(values_of(10, 5, 1))
    with refused(ProgramError, "groups", None):
        program.at({"rows": 1, "columns": 1})


@given(lanes)
def test_files_have_the_whole_program(lanes: int) -> None:
    program = open_program(lanes)
    data = json.loads(json.dumps(program_to_json(program)))
    assert data["version"] == 4
    read = program_from_json(data)
    assert read == program
    assert read.symbols == SYMBOLS
    assert program_to_json(read) == program_to_json(program)
    # At a shape the kernels take numbers, and so do launches.
    concrete = program.at(values_of(2, 5, 1))
    assert program_from_json(json.loads(json.dumps(program_to_json(concrete)))) == concrete


def test_files_of_programs_without_symbols_are_as_they_were() -> None:
    x = Buffer("x", BufferType((4,)), Role.OUTPUT)
    program = Program(
        ((Launch(0, (0,), 0, 4, 0),),), ("k",), (x,), ("u",), (KernelUse(4, 1, (0,)),)
    )
    assert json.dumps(program_to_json(program)) == (
        '{"format": "tvm-ios program", "version": 3, "kernels": ["k"], "uses": [[4, 1, [0]]], '
        '"units": ["u"], "buffers": [["x", [4], "float32", "output"]], '
        '"lanes": [[["launch", 0, [0], 0, 4, 0]]]}'
    )


DAMAGES: dict[str, Any] = {
    "no symbols": lambda d: d.pop("symbols"),
    "an unknown expression": lambda d: d["buffers"][0].__setitem__(1, ["e99"]),
    "an unknown symbol": lambda d: d["uses"][0].__setitem__(0, "s9"),
    "an expression of later ones": lambda d: d["expressions"].insert(0, ["floor", "e1", 2]),
    "another kind": lambda d: d["expressions"].append(["product", 1, 2]),
    "a scalar of no symbol": lambda d: d["uses"][0].__setitem__(3, ["nose"]),
    "a range beyond the tiles": lambda d: d["lanes"][0][0].__setitem__(4, 1000),
    "version 3": lambda d: d.__setitem__("version", 3),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_malformed_files_are_refused(name: str) -> None:
    data = json.loads(json.dumps(program_to_json(open_program(2))))
    damaged = copy.deepcopy(data)
    DAMAGES[name](damaged)
    with pytest.raises(ProgramError):
        program_from_json(damaged)


def _one(launches: list[Launch], tiles: int, shape: tuple[int, ...] = (B, L)) -> Program:
    buffer = Buffer("x", BufferType(shape), Role.OUTPUT)
    return Program(
        tuple((launch,) for launch in launches),
        ("k",),
        (buffer,),
        ("u",),
        (KernelUse(tiles, 1, (0,)),),
    )


@pytest.mark.parametrize(
    ("begin", "end"), [(B, 0), (0, B + 1), (B - 2, B), (L // 2, B), (0, L)], ids=str
)
def test_ranges_that_leave_the_tiles_in_some_shape_are_refused(begin: int, end: int) -> None:
    with refused(ProgramError, "lane 0"):
        _one([Launch(0, (0,), begin, end, 0)], B)


def test_ranges_that_overlap_in_some_shape_race() -> None:
    check_races(_one([Launch(0, (0,), 0, B // 2, 0), Launch(0, (0,), B // 2, B, 0)], B))
    with pytest.raises(RaceError):
        check_races(_one([Launch(0, (0,), 0, (B + 1) // 2, 0), Launch(0, (0,), B // 2, B, 0)], B))


def test_units_that_do_not_agree_about_a_tensor_are_refused() -> None:
    code = open_code()
    code[1] = replace(code[1], parameters=(BufferType((B, L)), code[1].parameters[1]))
    stages = [Stage(Strategy.CONCURRENT, ((unit,),)) for unit in range(4)]
    with refused(LoweringError, "'scaled'", "'scale'", "'sum'"):
        lower_stages(open_graph(), stages, code, lanes=2)


@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 3), shapes)
def test_placed_tiles_are_the_same_parts_of_each_number(
    rows: int, cut_at: int, lanes: int, shape: dict[str, int]
) -> None:
    cut_at = min(cut_at, rows)
    halves = ((0, 0, cut_at), (lanes - 1, cut_at, rows))
    placement = [Share(0, 0, lane, a, b) for lane, a, b in halves if a < b]
    # The phases of the second unit: two tiles a row, and one of two rows.
    placement += [Share(1, 0, 0, 0, 2 * rows), Share(1, 1, 0, 0, (rows + 1) // 2)]
    stages = [Stage(Strategy.CO_SCHEDULE, ((0, 1),), placement=tuple(placement))]
    stages += [Stage(Strategy.CONCURRENT, ((unit,),)) for unit in (2, 3)]
    program = lower_stages(open_graph(), stages, open_code(), lanes=lanes)
    check_races(program)
    for values in (shape, {**shape, "rows": rows}):
        tiles: dict[str, list[tuple[int, int]]] = {}
        for lane in program.at(values).lanes:
            for item in lane:
                if isinstance(item, Launch) and item.begin < item.end:
                    tiles.setdefault(program.kernels[item.kernel], []).append(
                        (item.begin, item.end)
                    )
        assert {t for a, b in tiles["scale"] for t in range(a, b)} == set(range(values["rows"]))
        assert sum(b - a for a, b in tiles["scale"]) == values["rows"]
    first = next(i for i in program.at({**shape, "rows": rows}).lanes[0] if isinstance(i, Launch))
    assert lanes == 1 or cut_at in (0, rows) or (first.begin, first.end) == (0, cut_at)


def test_constants_are_not_open() -> None:
    with refused(ProgramError, "constant 'w'", "open"):
        Program(((),), (), (Buffer("w", BufferType((L, 2)), Role.CONSTANT),), ())


def _parts(*borders: int) -> Program:
    whole = BufferType((4, borders[-1]))
    buffers = [Buffer("whole", whole, Role.OUTPUT)]
    buffers += [
        Buffer(f"part {n}", whole, Role.INTERMEDIATE, Part(0, 1, begin, end))
        for n, (begin, end) in enumerate(pairwise(borders))
    ]
    return Program(((),), (), tuple(buffers), ())


def test_parts_along_an_open_axis_have_regions() -> None:
    program = _parts(0, L, L + 8, L + 8 + PITCH)
    assert regions_of(program.buffers) == (range(3), range(1), range(1, 2), range(2, 3))
    with refused(ProgramError, "part 1", "part"):
        # Nobody knows which ends first.
        _parts(0, L, B, L + B)


@given(lanes, shapes)
def test_memory_is_planned_for_every_shape(lanes: int, values: dict[str, int]) -> None:
    program = open_program(lanes)
    plan = plan_open(program)
    check_open_arena(program, plan)
    concrete = program.at(values)
    placed = plan.at(program, values)
    check_arena(concrete, placed)
    assert set(placed.offsets) == set(planned_buffers(program))
    for place, others in enumerate(plan.conflicts):
        for other in others:
            pair = {plan.buffers[place], plan.buffers[other]}
            assert pair in conflicting(concrete)
    unshared = sum(concrete.buffers[b].type.nbytes + 63 for b in plan.buffers)
    assert placed.nbytes <= unshared
    data = json.loads(json.dumps(plan.to_json(program)))
    assert read_plan(data, program) == plan


def test_at_the_hint_memory_is_as_best_fit_plans_it() -> None:
    program = open_program(2)
    hints = {symbol.name: symbol.hint for symbol in program.symbols}
    planned = plan_quickly(program.at_hint()).plan
    assert plan_open(program).at(program, hints).nbytes == planned.nbytes


def test_plans_that_let_live_buffers_share_bytes_are_refused() -> None:
    program = open_program(2)
    plan = plan_open(program)
    assert any(plan.conflicts)
    with refused(ProgramError, "share bytes"):
        check_open_arena(program, replace(plan, conflicts=((),) * len(plan.buffers)))
    for wrong in (
        replace(plan, buffers=plan.buffers[1:], conflicts=plan.conflicts[1:]),
        replace(plan, conflicts=((0,), *plan.conflicts[1:])),
    ):
        with pytest.raises(ProgramError):
            OpenMemoryPlan.from_json(
                {"format": "tvm-ios memory plan", "version": 2}
                | {"lowest": False, "buffers": wrong.buffers, "conflicts": wrong.conflicts},
                program,
            )


def test_open_extents_are_where_they_should_be() -> None:
    program = open_program(3)
    assert all(is_open(use.tiles) for use in program.uses)
    assert len({len([i for i in lane if isinstance(i, Launch)]) for lane in program.lanes}) == 1
    assert np.dtype(program.buffers[0].type.dtype) == np.float32
