"""Sessions of programs whose shapes are open, on every executor."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_ext.execution.native_executor import NativeExecutor, encode_lane
from runtime_ext.execution.ports import Port
from runtime_ext.execution.reference import ReferenceExecutor
from runtime_ext.execution.session import Session
from runtime_ext.native_errors import KernelError, SessionError
from runtime_ext.native_library import load_native_library
from tests.open_program import (
    CONSTANTS,
    FUNCTIONS,
    SYMBOLS,
    B,
    L,
    expected,
    open_inputs,
    open_program,
    program_with_a_box,
    values_of,
)
from tests.refusals import refused
from tvm_ios.files.array_files import Array
from tvm_ios.program.arena.open_plan import plan_open
from tvm_ios.program.one_lane import on_one_lane
from tvm_ios.program.program import (
    Buffer,
    BufferType,
    KernelUse,
    Launch,
    Program,
    ProgramError,
    Role,
    Wait,
)
from tvm_ios.program.program_json import program_to_json

ExecutorName = Literal["native", "reference", "poisoning"]
EXECUTORS: list[ExecutorName] = ["native", "reference", "poisoning"]
GROUPS, ROWS, COLUMNS = (SYMBOLS[1], SYMBOLS[2], SYMBOLS[0])
shapes = st.tuples(*(st.integers(s.least, s.most) for s in (ROWS, COLUMNS, GROUPS)))


def session(lanes: int = 2, executor: ExecutorName = "native", **options: Any) -> Session:
    program = options.pop("program", None) or open_program(lanes, side_by_side=lanes == 3)
    functions = options.pop("functions", FUNCTIONS)
    return Session(program, functions, CONSTANTS, executor=executor, **options)


def check(live: Session, shape: tuple[int, int, int], seed: int = 0) -> None:
    inputs = open_inputs(*shape, seed=seed)
    live.run(**inputs)
    for name, value in expected(inputs).items():
        np.testing.assert_array_equal(live.get_output(name), value)


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("lanes", [1, 2, 3])
def test_every_shape_is_computed(executor: ExecutorName, lanes: int) -> None:
    check_shapes(session(lanes, executor))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_shape_is_computed_with_other_lanes_in_a_box(executor: ExecutorName) -> None:
    check_shapes(session(2, executor, program=program_with_a_box()))


def check_shapes(live: Session) -> None:
    @settings(max_examples=25)
    @given(st.lists(shapes, min_size=1, max_size=6))
    def run(shapes: list[tuple[int, int, int]]) -> None:
        for seed, shape in enumerate(shapes):
            check(live, shape, seed)

    run()
    live.close()


def test_a_profile_is_of_the_lanes_of_the_shape() -> None:
    live, program = session(2, program=program_with_a_box()), program_with_a_box()
    for shape in ((2, 20, 1), (2, 21, 1), (5, 1, 4), (6, 1, 4)):
        live.set_input(**open_inputs(*shape))
        lanes = program.at(values_of(*shape)).lanes
        launches = [[i for i in lane if isinstance(i, Launch)] for lane in lanes]
        spans = live.profile()
        assert len(spans) == sum(map(len, launches))
        named = [program.units[launches[s.lane][s.launch].unit] for s in spans]
        assert named.count("turn") == (1 if shape[0] <= 5 and shape[1] <= 20 else 2)
    live.close()


def test_shapes_grow_shrink_and_come_back() -> None:
    live = session()
    most = (ROWS.most, COLUMNS.most, GROUPS.most)
    for shape in [(1, 1, 1), most, (1, 1, 1), (2, 17, 2), most, most, (9, 1, 1), (1, 40, 4)]:
        for seed in range(3):
            check(live, shape, seed)
    # More shapes than are kept, twice.
    for _ in range(2):
        for columns in range(1, 41):
            check(live, (2, columns, 1))
    assert len(live.benchmark(number=2, repeat=3)) == 3
    spans = live.profile()
    launches = sum(len([i for i in lane if hasattr(i, "kernel")]) for lane in live.program.lanes)
    assert len(spans) == launches
    live.close()


@given(st.integers(1, 3), shapes, st.booleans())
def test_the_native_library_makes_what_python_makes_of_a_shape(
    lanes: int, shape: tuple[int, int, int], alone: bool
) -> None:
    program = open_program(lanes)
    program = on_one_lane(program) if alone else program
    plan, values = plan_open(program), values_of(*shape)
    bound = _bound(program, shape)
    assert {str(k): int(v) for k, v in bound["symbols"].items()} == values
    placed = plan.at(program, values)
    assert bound["nbytes"] == placed.nbytes
    assert list(bound["offsets"]) == [
        placed.offsets.get(n, -1) for n in range(len(program.buffers))
    ]
    concrete = program.at(values)
    assert [list(lane) for lane in bound["lanes"]] == list(map(encode_lane, concrete.lanes))


def _bound(program: Program, shape: tuple[int, int, int]) -> Any:
    inputs = open_inputs(*shape)
    bind = load_native_library()["shape_binder"](
        json.dumps(program_to_json(program)).encode(),
        json.dumps(plan_open(program).to_json(program)).encode(),
        [[name, name] for name in inputs],
    )
    return bind([list(value.shape) for value in inputs.values()])


@given(shapes)
def test_a_program_at_a_shape_runs_as_any_other(shape: tuple[int, int, int]) -> None:
    program = open_program(2).at(values_of(*shape))
    inputs = open_inputs(*shape)
    for executor in EXECUTORS:
        live = Session(program, FUNCTIONS, CONSTANTS, executor=executor)
        live.run(**inputs)
        for name, value in expected(inputs).items():
            np.testing.assert_array_equal(live.get_output(name), value)
        live.close()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_inputs_are_set_in_any_order_and_kept(executor: ExecutorName) -> None:
    live = session(executor=executor)
    first, second = open_inputs(2, 5), open_inputs(3, 7)
    live.run(**first)
    before = live.get_output("turned")
    # One after another, also of shapes that do not agree yet; outputs stay those of the last run.
    live.set_input("extra", second["extra"])
    live.set_input("x", second["x"])
    np.testing.assert_array_equal(live.get_output("turned"), before)
    with refused(SessionError, "'mask'", "float32[2, 5]", "'x'", "float32[3, 7]"):
        live.run()
    live.run(mask=second["mask"])
    np.testing.assert_array_equal(live.get_output("turned"), expected(second)["turned"])
    # What was set before stays.
    live.run()
    np.testing.assert_array_equal(live.get_output("total"), expected(second)["total"])
    # Large and back again before a run.
    live.set_input(**open_inputs(9, 40, 4))
    live.run(**second)
    np.testing.assert_array_equal(live.get_output("turned"), expected(second)["turned"])
    live.close()


X = open_inputs(2, 5)["x"]
WRONG: list[tuple[dict[str, Array], tuple[object, ...]]] = [
    ({"x": np.zeros((10, 5), "f")}, ("'x'", "float32[10, 5]", "float32[1..9, 1..40]")),
    ({"x": np.zeros((2, 41), "f")}, ("'x'", "float32[2, 41]", "float32[1..9, 1..40]")),
    ({"x": np.zeros((0, 5), "f")}, ("'x'", "float32[0, 5]", "float32[1..9, 1..40]")),
    ({"x": np.zeros((2, 5, 1), "f")}, ("'x'", "float32[2, 5, 1]", "float32[1..9, 1..40]")),
    (
        {"extra": np.zeros((12, 2), "f")},
        ("'extra'", "float32[12, 2]", "float32[8..32:8, 1..9]"),
    ),
    ({"x": np.zeros((2, 5), "float64")}, ("'x'", "float64", "float32")),
]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(("inputs", "named"), WRONG, ids=[str(case[1][1]) for case in WRONG])
def test_shapes_that_an_input_never_has_are_refused(
    executor: ExecutorName, inputs: dict[str, Array], named: tuple[object, ...]
) -> None:
    live = session(executor=executor)
    with refused(SessionError, *named):
        live.set_input(**inputs)
    with refused(SessionError, "never set"):
        live.run()
    check(live, (2, 5, 1))
    live.close()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_shapes_that_do_not_agree_are_refused(executor: ExecutorName) -> None:
    live = session(executor=executor)
    inputs = open_inputs(2, 5) | {"extra": open_inputs(3, 5)["extra"]}
    with refused(SessionError, "'extra'", "float32[8, 3]", "float32[8, 2]", "'x'", "float32[2, 5]"):
        live.run(**inputs)
    check(live, (2, 5, 1))
    live.close()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_what_a_run_does_not_write_is_poisoned_in_no_result(executor: ExecutorName) -> None:
    """A kernel that reads behind its input may find anything there, and must not use it."""
    seen: list[Array] = []

    def scale(x: Any, factors: Any, y: Any, columns: int, begin: int, end: int) -> None:
        array = np.from_dlpack(x)
        behind = (ctypes.c_char * 64).from_address(array.ctypes.data + array.nbytes)
        seen.append(np.frombuffer(bytes(behind), np.float32))
        FUNCTIONS["scale"](x, factors, y, columns, begin, end)

    live = session(executor=executor, functions=dict(FUNCTIONS) | {"scale": scale})
    for shape in [(3, 16, 1), (9, 40, 1), (1, 1, 1)]:
        check(live, shape)
    assert len(seen) >= 3
    if executor == "poisoning":
        assert all(np.isnan(values).all() for values in seen)
    live.close()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_kernel_that_fails_leaves_a_session_that_runs(executor: ExecutorName) -> None:
    broken = True

    def add(*arguments: Any) -> None:
        if broken:
            raise ValueError("no luck")
        FUNCTIONS["add"](*arguments)

    live = session(executor=executor, functions=dict(FUNCTIONS) | {"add": add})
    with refused(KernelError, "unit 'add'", "kernel 'add'", "no luck"):
        live.run(**open_inputs(2, 5))
    with refused(SessionError, "'turned'", "run"):
        live.get_output("turned")
    broken = False
    check(live, (2, 5, 1))
    check(live, (3, 6, 1))
    live.close()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_many_requests_have_shapes_of_their_own(executor: ExecutorName) -> None:
    requests = [open_inputs(1 + n % 9, 1 + 7 * n % 40, 1 + n % 4, seed=n) for n in range(24)]
    for workers in (1, 2):
        live = session(executor=executor)
        results = live.run_many(requests, workers=workers)
        for result, inputs in zip(results, requests, strict=True):
            for name, value in expected(inputs).items():
                np.testing.assert_array_equal(result[name], value)
        live.close()


def test_outputs_that_are_inputs_passed_on_are_what_was_set() -> None:
    outputs = [Port("same", "x", (B, L), "float32"), Port("sum", "total", (B,), "float32")]
    for executor in EXECUTORS:
        live = session(executor=executor, outputs=outputs)
        for shape in [(2, 5, 1), (3, 4, 1)]:
            inputs = open_inputs(*shape)
            live.run(**inputs)
            np.testing.assert_array_equal(live.get_output("same"), inputs["x"])
            np.testing.assert_array_equal(live.get_output("sum"), expected(inputs)["total"])
        live.close()


#: The sum of all inputs so far.
COUNTING = Program(
    ((Launch(0, (0, 1, 2), 0, 1, 0),),),
    ("count",),
    (
        Buffer("x", BufferType((L,)), Role.INPUT),
        Buffer("sum", BufferType((1,)), Role.INPUT),
        Buffer("new_sum", BufferType((1,)), Role.OUTPUT),
    ),
    ("count",),
    (KernelUse(1, 3, (2,), ("columns",)),),
)


def count(x: Any, old: Any, new: Any, columns: int, begin: int, end: int) -> None:
    x, old, new = map(np.from_dlpack, (x, old, new))
    assert (len(x), begin, end) == (columns, 0, 1)
    new[0] = old[0] + x.sum()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_state_of_one_shape_is_kept_over_runs_of_many(executor: ExecutorName) -> None:
    live = Session(COUNTING, {"count": count}, {}, executor=executor, states={"new_sum": "sum"})
    total = 0
    for columns in [3, 40, 3, 7, 1]:
        live.run(x=np.full(columns, 2, "float32"))
        total += 2 * columns
        assert live.get_output("new_sum") == total
    live.reset_states()
    live.run(x=np.ones(5, "float32"))
    assert live.get_output("new_sum") == 5
    live.close()


def test_a_module_keeps_a_state_of_one_shape() -> None:
    module = load_native_library()["open_program"](
        [tvm_ffi.convert(count)],
        json.dumps(program_to_json(COUNTING)).encode(),
        json.dumps(plan_open(COUNTING).to_json(COUNTING)).encode(),
        {},
        [["x", "x"], ["sum", "sum"]],
        [["new_sum", "new_sum"]],
        False,
        1e-3,
        5e-6,
    )
    module["bind_state"]("new_sum", "sum")
    total = 0
    for columns in [3, 40, 3, 7, 1]:
        module["set_input"]("x", tvm_ffi.from_dlpack(np.full(columns, 2, "float32")))
        module["run"]()
        total += 2 * columns
        assert np.from_dlpack(module["get_output"](0)) == total
    module["reset_states"]()
    module["run"]()
    assert np.from_dlpack(module["get_output"](0)) == 2
    with refused(SessionError, "'new_sum'", "'x'", "state"):
        module["bind_state"]("new_sum", "x")


#: Lane 0 has nothing to do but to wait for lane 1, whose tiles depend on the shape.
ONE_WORKS = Program(
    ((Wait(1, 1), Launch(1, (1, 2), 0, 1, 0)), (Launch(0, (0, 1), 0, L, 0),)),
    ("long", "short"),
    (
        Buffer("x", BufferType((L,)), Role.INPUT),
        Buffer("between", BufferType((L,)), Role.INTERMEDIATE),
        Buffer("y", BufferType((L,)), Role.OUTPUT),
    ),
    ("unit",),
    (KernelUse(L, 2, (1,), ("columns",)), KernelUse(1, 2, (1,), ("columns",))),
)


def test_a_lane_that_waits_takes_pieces_in_every_shape() -> None:
    tiles: list[tuple[int, int]] = []

    def long(x: Any, y: Any, columns: int, begin: int, end: int) -> None:
        x, y = map(np.from_dlpack, (x, y))
        for tile in range(begin, end):
            time.sleep(5e-4)
            y[tile] = x[tile] + columns
            tiles.append((tile, threading.get_ident()))

    def short(x: Any, y: Any, columns: int, begin: int, end: int) -> None:
        np.from_dlpack(y)[:] = np.from_dlpack(x)

    live = Session(ONE_WORKS, {"long": long, "short": short}, {})
    helped = 0
    for run, columns in enumerate([8, 8, 3, 8, 1, 16, 40, 5, 16, 2]):
        tiles.clear()
        live.run(x=np.arange(columns, dtype="float32"))
        np.testing.assert_array_equal(live.get_output("y"), np.arange(columns) + columns)
        assert sorted(tile for tile, _ in tiles) == list(range(columns))
        helped += len({thread for _, thread in tiles}) == 2
        # What tiles take is still to be seen.
        assert run >= 4 or not helped
    assert helped >= 3
    live.close()


def test_an_input_that_nobody_sets_is_zeros_of_every_shape() -> None:
    program = replace(
        ONE_WORKS, lanes=((Launch(0, (0, 1), 0, L, 0), Launch(1, (1, 2), 0, 1, 0)), ())
    )
    buffers = (*program.buffers[:1], replace(program.buffers[1], role=Role.INPUT))
    buffers = (*buffers, program.buffers[2])
    uses = (KernelUse(L, 2, (), ("columns",)), program.uses[1])
    program = replace(program, buffers=buffers, uses=uses)

    def copy(x: Any, y: Any, columns: int, begin: int, end: int) -> None:
        np.from_dlpack(y)[:] = np.from_dlpack(x)

    def nothing(*_: Any) -> None:
        pass

    ports = [Port("x", "x", (L,), "float32")]
    live = Session(program, {"long": nothing, "short": copy}, {}, inputs=ports)
    for columns in [3, 40, 5]:
        live.run(x=np.ones(columns, "float32"))
        np.testing.assert_array_equal(live.get_output("y"), np.zeros(columns))
    live.close()


def test_random_inputs_have_the_shape_of_the_hint() -> None:
    live = session()
    inputs = live.random_inputs()
    assert inputs["x"].shape == (ROWS.hint, COLUMNS.hint)
    assert inputs["extra"].shape == (8 * GROUPS.hint, ROWS.hint)
    live.run(**inputs)
    live.close()


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], tuple[object, ...]]] = {
    "states": (
        lambda: session(states={"total": "x"}),
        SessionError,
        ("'total'", "'x'", "state"),
    ),
    "a GPU": (lambda: session(executor="cuda"), SessionError, ("CPU",)),  # pyright: ignore
    "a plan of one shape": (
        lambda: session(plan=plan_open(open_program(2)).at(open_program(2), values_of(1, 1, 1))),
        ProgramError,
        ("memory plan",),
    ),
    "a plan of another program": (
        lambda: session(
            plan=replace(plan_open(open_program(2)), buffers=(0,), conflicts=((),)),
        ),
        ProgramError,
        ("same buffers",),
    ),
    "inputs that do not say all": (
        lambda: session(inputs=[Port("x", "x", (B, L), "float32")]),
        Exception,
        ("'groups'",),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_open_sessions_cannot_have(name: str) -> None:
    call, kind, named = REFUSED[name]
    with refused(kind, *named):
        call()


@pytest.mark.parametrize("executor", [NativeExecutor, ReferenceExecutor])
def test_executors_of_one_shape_take_no_open_program(executor: Callable[..., Any]) -> None:
    with refused(SessionError, "columns, groups, rows"):
        executor(open_program(2), FUNCTIONS, [])


@pytest.mark.parametrize("executor", EXECUTORS)
def test_memory_that_is_reserved_at_any_time_changes_no_value(executor: ExecutorName) -> None:
    live = session(executor=executor)
    live.reserve()
    check(live, (9, 40, 4))
    check(live, (2, 5, 1))
    inputs = open_inputs(3, 7, 2)
    other = session(executor=executor)
    other.set_input(**inputs)
    # What was set and what was computed stays.
    other.reserve()
    other.run()
    other.reserve()
    for name, value in expected(inputs).items():
        np.testing.assert_array_equal(other.get_output(name), value)
    other.reserve()
    other.run()
    np.testing.assert_array_equal(other.get_output("total"), expected(inputs)["total"])
    for result in other.run_many([open_inputs(9, 40, 4)] * 3, workers=2):
        np.testing.assert_array_equal(result["total"], expected(open_inputs(9, 40, 4))["total"])
    live.close()
    other.close()


RESERVING = """
import json, sys
import numpy as np
from runtime_ext.execution.session import Session
from tvm_ios.shapes.extent import Symbol, extent_of
from tvm_ios.program.program import Buffer, BufferType, KernelUse, Launch, Program, Role

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

length = extent_of(Symbol("length", 1, 1 << 22, 64))
kinds = [(1, Role.INPUT), (4, Role.INTERMEDIATE), (1, Role.OUTPUT)]
program = Program(
    ((Launch(0, (0, 1), 0, 1, 0), Launch(0, (1, 2), 0, 1, 0)),),
    ("first",),
    tuple(Buffer(f"b{n}", BufferType((length, k)), role) for n, (k, role) in enumerate(kinds)),
    ("first",),
    (KernelUse(1, 2, (1,)),),
)

def first(x, y, begin, end):
    x, y = map(np.from_dlpack, (x, y))
    y[:] = x[:, :1]

session = Session(program, {"first": first}, {})
sizes = [resident()]
if sys.argv[1] == "reserve":
    session.reserve()
sizes.append(resident())
for length in (5, 1 << 20, 9, 1 << 21, 1 << 20):
    session.run(b0=np.full((length, 1), 7, "float32"))
    assert session.get_output(0).sum() == 7 * length
    sizes.append(resident())
print(json.dumps(sizes))
"""


@pytest.mark.parametrize("reserve", [False, True])
def test_memory_grows_with_the_largest_shape_or_is_taken_at_once(reserve: bool) -> None:
    told = "reserve" if reserve else "grow"
    command = [sys.executable, "-c", RESERVING, told]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, after, *later = json.loads(done.stdout)
    # Six numbers a place, of four bytes.
    whole = 6 * 4 << 22
    slack = 28 << 20
    if reserve:
        assert after - before >= whole
        assert max(later) - after < slack
    else:
        assert after - before < slack
        assert later[0] - before < slack
        assert (whole >> 1) - slack < later[3] - before < (whole >> 1) + slack
        assert abs(later[4] - later[3]) < slack
