"""Executables of open programs: saved, loaded, and run as modules of TVM's runtime."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_ext.deployment.adding import NewEntry, add_entry
from runtime_ext.deployment.deployment import load_deployment
from runtime_ext.execution import runtime_module
from runtime_ext.execution.executable import Executable, load
from runtime_ext.execution.package_summary import summarise_package
from runtime_ext.execution.ports import buffer_ports
from runtime_ext.native_errors import ExecutableError, SessionError
from tests.execution.open_executable import open_executable
from tests.execution.small_executable import change
from tests.open_program import SYMBOLS, B, L, expected, open_inputs, values_of
from tests.refusals import refused
from tvm_ios.program.arena.open_plan import OpenMemoryPlan
from tvm_ios.program.program import Role

COLUMNS, GROUPS, ROWS = SYMBOLS
shapes = st.tuples(*(st.integers(s.least, s.most) for s in (ROWS, COLUMNS, GROUPS)))


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Executable:
    return open_executable(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def saved(executable: Executable, tmp_path: Path) -> Path:
    executable.save(tmp_path / "out")
    return tmp_path / "out"


def check(module: Any, shape: tuple[int, int, int], seed: int = 0) -> None:
    inputs = open_inputs(*shape, seed=seed)
    module.run(**inputs)
    for name, value in expected(inputs).items():
        np.testing.assert_array_equal(module.get_output(name), value)


@pytest.mark.parametrize("name", ["out", "out.tar"])
def test_what_is_saved_is_loaded(executable: Executable, tmp_path: Path, name: str) -> None:
    executable.save(tmp_path / name)
    loaded = load(tmp_path / name)
    assert isinstance(loaded, Executable)
    assert (loaded.program, loaded.plan) == (executable.program, executable.plan)
    assert (loaded.inputs, loaded.outputs) == (executable.inputs, executable.outputs)
    session = loaded.session()
    for shape in [(2, 5, 1), (9, 40, 4), (1, 1, 1)]:
        check(session, shape)
    session.close()


def test_a_program_at_a_shape_is_saved_with_its_scalars(
    executable: Executable, tmp_path: Path
) -> None:
    shape = (3, 7, 2)
    program, plan = executable.program, executable.plan
    assert isinstance(plan, OpenMemoryPlan)
    values = values_of(*shape)
    fixed = program.at(values)
    replace(
        executable,
        program=fixed,
        plan=plan.at(program, values),
        inputs=tuple(buffer_ports(fixed, Role.INPUT)),
        outputs=tuple(buffer_ports(fixed, Role.OUTPUT)),
    ).save(tmp_path / "out")
    loaded = load(tmp_path / "out")
    assert isinstance(loaded, Executable)
    assert loaded.program == fixed
    module = runtime_module.load_module(tmp_path / "out")
    for live in (loaded.session(), module):
        check(live, shape)
        with refused(SessionError, "'x'", "[3, 7]", "[2, 7]"):
            live.set_input(x=np.zeros((2, 7), "float32"))
    requests = [open_inputs(*shape, seed=n) for n in range(6)]
    for result, inputs in zip(module.run_many(requests, 2), requests, strict=True):
        np.testing.assert_array_equal(result["turned"], expected(inputs)["turned"])
    change(tmp_path / "out", "program.json", lambda d: d["lanes"][0][0][6].append(1) or d)
    for opened in (load, runtime_module.load_module):
        with refused(ExecutableError, "2 scalars", "'scale'", 1):
            opened(tmp_path / "out")


def test_files_say_which_extents_are_open(saved: Path) -> None:
    meta = json.loads((saved / "meta.json").read_text())
    assert [port["shape"] for port in meta["inputs"]] == [[-1, -1], [-1, -1], [-1, -1]]
    assert json.loads((saved / "program.json").read_text())["version"] == 4
    assert json.loads((saved / "memory.json").read_text())["version"] == 2


@pytest.mark.parametrize("lanes", [1, 3])
def test_modules_run_every_shape(tmp_path: Path, lanes: int) -> None:
    open_executable(tmp_path, lanes).save(tmp_path / "out")
    module = runtime_module.load_module(tmp_path / "out")

    @settings(max_examples=30)
    @given(st.lists(shapes, min_size=1, max_size=5))
    def run(shapes: list[tuple[int, int, int]]) -> None:
        for seed, shape in enumerate(shapes):
            check(module, shape, seed)

    run()
    module.close()


def test_what_users_of_modules_know(saved: Path) -> None:
    module: Any = runtime_module.load_module(saved)
    assert module.input_info("x") == ((-1, -1), "float32")
    assert module.output_info("turned") == ((-1, -1), "float32")
    with refused(SessionError, "'x'", "set"):
        module.get_input("x")
    with refused(SessionError, "'turned'", "run"):
        module.get_output("turned")
    first, second = open_inputs(2, 5), open_inputs(3, 7)
    module.set_input(**first)
    assert module.input_info("x") == ((2, 5), "float32")
    assert module.output_info("turned") == ((-1, -1), "float32")
    np.testing.assert_array_equal(module.get_input("x"), first["x"])
    module.run()
    assert module.output_info("turned") == ((5, 2), "float32")
    out = np.zeros((5, 2), "float32")
    module.get_output("turned", out)
    np.testing.assert_array_equal(out, expected(first)["turned"])
    with refused(SessionError, "'turned'", "float32[5, 2]", "float32[2, 5]"):
        module.get_output("turned", np.zeros((2, 5), "float32"))
    module.set_input(**second)
    # Outputs are those of the last run.
    assert module.output_info("turned") == ((5, 2), "float32")
    np.testing.assert_array_equal(module.get_output("turned"), out)
    assert len(module.benchmark(number=2, repeat=3)) == 3
    assert module.output_info("turned") == ((7, 3), "float32")
    assert {span["unit"] for span in module.profile()} == {"scale", "sum", "turn", "add"}
    module.close()
    np.testing.assert_array_equal(module.get_output("turned"), expected(second)["turned"])


def test_modules_are_loaded_by_tvm(saved: Path) -> None:
    module = tvm.runtime.load_module(str(saved / "model.tvm_ios"))
    inputs = open_inputs(4, 9, 2)
    for name, value in inputs.items():
        module["set_input"](name, tvm_ffi.from_dlpack(value))
    module["run"]()
    turned = np.from_dlpack(module["get_output"]("turned"))
    np.testing.assert_array_equal(turned, expected(inputs)["turned"])


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_run_requests_of_any_shapes(saved: Path, workers: int) -> None:
    module = runtime_module.load_module(saved)
    requests = [open_inputs(1 + n % 9, 1 + 7 * n % 40, 1 + n % 4, seed=n) for n in range(30)]
    for result, inputs in zip(module.run_many(requests, workers), requests, strict=True):
        for name, value in expected(inputs).items():
            np.testing.assert_array_equal(result[name], value)
    wrong = requests[3] | {"mask": requests[4]["mask"]}
    with refused(SessionError, "request 1", "'mask'"):
        module.run_many([requests[0], wrong], workers)
    module.close()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda m: m.run(), ["set"]),
        (lambda m: m.set_input(x=np.zeros((10, 5), "f")), ["'x'", "[10, 5]", "[1..9, 1..40]"]),
        (lambda m: m.set_input(extra=np.zeros((9, 2), "f")), ["'extra'", "[8..32:8, 1..9]"]),
        (lambda m: m.run(**open_inputs(2, 5) | {"mask": open_inputs(2, 6)["mask"]}), ["'mask'"]),
        (lambda m: m.bind_state("total", "x"), ["'total'", "'x'", "state"]),
        (lambda m: m.reset_states(), ["no states"]),
    ],
)
def test_wrong_use_is_told(saved: Path, call: Callable[[Any], Any], named: list[str]) -> None:
    module = runtime_module.load_module(saved)
    with refused(SessionError, *named):
        call(module)
    check(module, (2, 5, 1))
    module.close()


def _program(edit: Callable[[Any], Any]) -> tuple[str, Callable[[Any], Any]]:
    return "program.json", edit


def _memory(edit: Callable[[Any], Any]) -> tuple[str, Callable[[Any], Any]]:
    return "memory.json", edit


DAMAGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "no symbols": _program(lambda d: d.pop("symbols")),
    "no expressions": _program(lambda d: d.pop("expressions")),
    "a table that ends early": _program(lambda d: d["expressions"].pop()),
    "a symbol of three values": _program(lambda d: d["symbols"][0].pop()),
    "an empty range": _program(lambda d: d["symbols"][0].__setitem__(1, 99)),
    "two symbols of one name": _program(lambda d: d["symbols"][1].__setitem__(0, "rows")),
    "an unknown expression": _program(lambda d: d["buffers"][0].__setitem__(1, ["e99", 1])),
    "an unknown symbol": _program(lambda d: d["buffers"][0].__setitem__(1, ["s9", 1])),
    "a reference that is none": _program(lambda d: d["buffers"][0].__setitem__(1, ["e1x", 1])),
    "a negative reference": _program(lambda d: d["buffers"][0].__setitem__(1, [-1, 1])),
    "an expression of itself": _program(
        lambda d: d["expressions"].__setitem__(0, ["floor", "e0", 2])
    ),
    "an expression of a later one": _program(
        lambda d: d["expressions"].__setitem__(0, ["sum", [1, "e1"]])
    ),
    "a division by nothing": _program(lambda d: d["expressions"].append(["floor", "s0", 0])),
    "an unknown kind": _program(lambda d: d["expressions"].append(["product", "s0", 0])),
    "an empty expression": _program(lambda d: d["expressions"].append([])),
    "a term without a factor": _program(lambda d: d["expressions"].append(["sum", []])),
    "a factor that is a text": _program(lambda d: d["expressions"].append(["sum", ["1"]])),
    "an expression that overflows": _program(
        lambda d: d["expressions"].append(["sum", [1 << 61, "s0", "s1"]])
    ),
    "a power that overflows": _program(
        lambda d: d["expressions"].extend(
            ["sum", [1, f"e{n}", f"e{n}"]]
            for n in range(len(d["expressions"]) - 1, len(d["expressions"]) + 8)
        )
    ),
    "a symbol that overflows": _program(lambda d: d["symbols"][0].__setitem__(2, 1 << 62)),
    "buffers that overflow": _program(
        lambda d: d["buffers"][5].__setitem__(1, ["s0", 1 << 40, 1 << 20])
    ),
    "an open constant": _program(
        lambda d: next(b for b in d["buffers"] if b[3] == "constant").__setitem__(1, ["s0"])
    ),
    "a scalar of no symbol": _program(lambda d: d["uses"][0].__setitem__(3, ["nose"])),
    "scalars that are none": _program(lambda d: d["uses"][0].__setitem__(3, [1])),
    "tiles beyond the kernel's": _program(lambda d: d["lanes"][0][0].__setitem__(4, 1 << 20)),
    "a range that is none": _program(lambda d: d["lanes"][0][0].__setitem__(3, "s1")),
    "alternatives that are none": _program(lambda d: d.__setitem__("alternatives", [1])),
    "a box without a symbol": _program(lambda d: d["alternatives"][0]["box"].pop("rows")),
    "a box without an end": _program(lambda d: d["alternatives"][0]["box"]["rows"].pop()),
    "lanes too few in a box": _program(lambda d: d["alternatives"][0]["lanes"].pop()),
    "no lanes in a box": _program(lambda d: d["alternatives"][0].pop("lanes")),
    "tiles beyond the kernel's in a box": _program(
        lambda d: d["alternatives"][0]["lanes"][0][0].__setitem__(4, 1 << 20)
    ),
    "lanes in a box that wait for ever": _program(
        lambda d: d["alternatives"][0]["lanes"][0].insert(0, ["wait", 0, 1])
    ),
    "version 3": _program(lambda d: d.__setitem__("version", 3)),
    "version 5": _program(lambda d: d.__setitem__("version", 5)),
    "a plan of version 1": _memory(lambda d: d.__setitem__("version", 1)),
    "no order": _memory(lambda d: d.pop("buffers")),
    "a buffer twice": _memory(lambda d: d["buffers"].__setitem__(0, d["buffers"][1])),
    "a buffer that is an input": _memory(lambda d: d["buffers"].__setitem__(0, 0)),
    "a buffer of none": _memory(lambda d: d["buffers"].__setitem__(0, 99)),
    "a buffer too few": _memory(lambda d: d["buffers"].pop()),
    "conflicts too few": _memory(lambda d: d["conflicts"].pop()),
    "a conflict with a later buffer": _memory(lambda d: d["conflicts"].__setitem__(0, [1])),
    "a conflict with itself": _memory(lambda d: d["conflicts"].__setitem__(1, [1])),
    "a conflict that is none": _memory(lambda d: d["conflicts"].__setitem__(1, ["0"])),
    "another gap": _memory(lambda d: d.__setitem__("lowest", 1)),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_tables_are_refused(saved: Path, name: str) -> None:
    file, edit = DAMAGES[name]
    change(saved, file, lambda data: (edit(data), data)[1])
    with pytest.raises(ExecutableError) as caught:
        runtime_module.load_module(saved)
    assert str(saved) in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ExecutableError):
        load(saved)


def test_a_plan_that_lacks_a_conflict_is_refused_in_python(saved: Path) -> None:
    change(saved, "memory.json", lambda d: d["conflicts"].__setitem__(-1, []) or d)
    with refused(ExecutableError, "share bytes"):
        load(saved)


def test_ports_of_another_shape_are_refused(saved: Path) -> None:
    change(saved, "meta.json", lambda d: d["inputs"][0].__setitem__("shape", [4, -1]))
    for opened in (load, runtime_module.load_module):
        with refused(ExecutableError, "'x'"):
            opened(saved)


def test_inputs_that_do_not_say_what_a_symbol_is_are_refused(saved: Path) -> None:
    change(saved, "meta.json", lambda d: d["inputs"].pop() and d)
    with refused(ExecutableError, "'groups'"):
        runtime_module.load_module(saved)


def test_its_files_are_told_of(saved: Path) -> None:
    summary = summarise_package(saved)
    loaded = load(saved)
    assert isinstance(loaded, Executable)
    program, plan = loaded.program, loaded.plan
    assert isinstance(plan, OpenMemoryPlan)
    arenas = [plan.at(program, values_of(*shape)).nbytes for shape in ((1, 1, 1), (9, 40, 4))]
    assert (summary.lanes, summary.kernels) == (2, 5)
    assert [summary.least_arena_bytes, summary.arena_bytes] == arenas
    assert [port["shape"] for port in summary.inputs] == [
        ["1..9", "1..40"],
        ["1..9", "1..40"],
        ["8..32:8", "1..9"],
    ]
    assert summary.problem is None


def test_what_needs_one_shape_refuses_the_range(executable: Executable, tmp_path: Path) -> None:
    with refused(ExecutableError, "columns, groups, rows"):
        executable.fixed_plan()
    assert executable.inputs[0].shape == (B, L)


def test_it_is_an_entry_of_a_deployment(executable: Executable, tmp_path: Path) -> None:
    entry = add_entry(tmp_path / "app", "model", "0", NewEntry(executable, "sequential"))
    assert [str(port) for port in entry.inputs] == [
        "x:1..9x1..40",
        "mask:1..9x1..40",
        "extra:8..32:8x1..9",
    ]
    assert entry.batch is None
    assert "-range-" in entry.id
    module = runtime_module.load_module(tmp_path / "app")
    session = load_deployment(tmp_path / "app").session()
    module.reserve()
    session.reserve()

    @given(shapes)
    def same(shape: tuple[int, int, int]) -> None:
        inputs = open_inputs(*shape)
        module.run(**inputs)
        session.run(**inputs)
        for name, value in expected(inputs).items():
            np.testing.assert_array_equal(module.get_output(name), value)
            np.testing.assert_array_equal(session.get_output(name), value)
        assert session.outputs[0].shape == expected(inputs)["turned"].shape
        assert module.input_info("extra")[0] == inputs["extra"].shape

    same()
    requests = [open_inputs(n, 2 * n, 1 + n % 4) for n in range(1, 9)]
    for results in (session.run_many(requests), module.run_many(requests, 2)):
        for request, result in zip(requests, results, strict=True):
            np.testing.assert_array_equal(result["total"], expected(request)["total"])
    session.close()
