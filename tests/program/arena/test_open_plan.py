"""Open memory plans of random programs: Python and C++ place alike, and safely in every shape."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from runtime_ext.native_library import load_native_library
from tests.program.arena.small_programs import conflicting, programs
from tvm_ios.program.arena.check import check_arena
from tvm_ios.program.arena.open_plan import OpenMemoryPlan, check_open_arena, plan_open
from tvm_ios.program.program import Buffer, BufferType, KernelUse, Launch, Program, Role
from tvm_ios.program.program_json import program_from_json, program_to_json
from tvm_ios.shapes.extent import Symbol, extent_of

ROWS, COLUMNS = Symbol("rows", 0, 40, 8), Symbol("columns", 1, 300, 30)
R, C = extent_of(ROWS), extent_of(COLUMNS)
EXTENTS = [R, C, R * C, (C + 15) // 16 * 16, R + 3, 5, R * 2 + C // 3]


@st.composite
def open_programs(draw: st.DrawFn) -> Program:
    """Random programs whose buffers have open extents; the first one says what the symbols are."""
    program = draw(programs(most_buffers=9))
    extents = [draw(st.sampled_from(EXTENTS)) for _ in program.buffers]
    types = [
        BufferType((extents[program.whole_of(n)], *buffer.type.shape[1:]))
        for n, buffer in enumerate(program.buffers)
    ]
    types[0] = BufferType((R, C))
    buffers = tuple(
        replace(buffer, type=kind) for buffer, kind in zip(program.buffers, types, strict=True)
    )
    # A kernel for each number of buffers.
    lanes = tuple(
        tuple(
            replace(item, kernel=len(item.buffers)) if isinstance(item, Launch) else item
            for item in lane
        )
        for lane in program.lanes
    )
    uses = tuple(KernelUse(1, count, ()) for count in range(4))
    return Program(lanes, tuple(f"k{count}" for count in range(4)), buffers, program.units, uses)


@given(open_programs(), st.lists(st.tuples(st.integers(0, 40), st.integers(1, 300)), min_size=1))
def test_python_and_cpp_place_alike(program: Program, shapes: list[tuple[int, int]]) -> None:
    plan = plan_open(program)
    check_open_arena(program, plan)
    texts = (program_to_json(program), plan.to_json(program))
    bind = load_native_library()["shape_binder"](
        *(json.dumps(text).encode() for text in texts), [["in", program.buffers[0].name]]
    )
    for rows, columns in shapes:
        values = {"rows": rows, "columns": columns}
        placed, concrete = plan.at(program, values), program.at(values)
        check_arena(concrete, placed)
        bound = bind([[rows, columns]])
        numbers = range(len(program.buffers))
        assert list(bound["offsets"]) == [placed.offsets.get(n, -1) for n in numbers]
        assert bound["nbytes"] == placed.nbytes
        for pair in conflicting(concrete):
            one, other = (
                range(placed.offsets[b], placed.offsets[b] + concrete.buffers[b].type.nbytes)
                for b in pair
            )
            assert not (one and other and one.start < other.stop and other.start < one.stop)


@given(open_programs(), st.integers(0, 40), st.integers(1, 300))
def test_no_shape_needs_more_than_the_largest(program: Program, rows: int, columns: int) -> None:
    plan = plan_open(program)
    largest = plan.at(program, {"rows": 40, "columns": 300})
    assert plan.at(program, {"rows": rows, "columns": columns}).nbytes <= largest.nbytes


def test_where_best_fit_takes_more_the_places_of_the_largest_shape_are_taken() -> None:
    """Smaller buffers leave gaps that the next one does not fit into."""
    lines = extent_of(Symbol("lines", 4, 5, 5), 16)
    buffers = (
        Buffer("x", BufferType((lines,)), Role.INPUT),
        *(
            Buffer(f"b{n}", BufferType((size,)), Role.INTERMEDIATE)
            for n, size in enumerate((80, lines, lines, 80, 80))
        ),
    )
    program = Program(((),), (), buffers, ())
    plan = OpenMemoryPlan((1, 2, 3, 4, 5), ((), (0,), (0, 1), (0, 1, 2), (0, 2, 3)))
    placed = plan.at(program, {"lines": 4})
    assert placed == plan.at(program, {"lines": 5})
    assert placed.nbytes == 20 * 64
    texts = (program_to_json(program), plan.to_json(program))
    bind = load_native_library()["shape_binder"](
        *(json.dumps(text).encode() for text in texts), [["x", "x"]]
    )
    bound = bind([[64]])
    assert bound["nbytes"] == placed.nbytes
    assert list(bound["offsets"]) == [placed.offsets.get(n, -1) for n in range(len(buffers))]


@given(open_programs())
def test_files_have_random_programs(program: Program) -> None:
    assert program_from_json(json.loads(json.dumps(program_to_json(program)))) == program


def test_a_program_without_planned_buffers_has_an_empty_plan() -> None:
    buffers = (Buffer("x", BufferType((R, C)), Role.INPUT),)
    program = Program(((),), (), buffers, ())
    plan = plan_open(program)
    assert (plan.buffers, plan.conflicts) == ((), ())
    assert plan.at(program, {"rows": 1, "columns": 1}).nbytes == 0
