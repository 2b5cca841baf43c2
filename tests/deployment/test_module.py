"""Deployments as modules of TVM's runtime: what they serve, and what they refuse."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm.script import tirx as T

from runtime_ext.deployment.adding import NewEntry, add_entry
from runtime_ext.deployment.deployment import load_deployment
from runtime_ext.execution.ports import Port
from runtime_ext.execution.runtime_module import DeployedModule, load_module
from runtime_ext.native_errors import BusyError, ExecutableError, SessionError
from tests.cpp_compiler import compile_cpp
from tests.deployment.rows_model import (
    IDENTITY,
    MODEL,
    WEIGHTS,
    add_rows,
    expected,
    image,
    rewrite,
    rows_executable,
)
from tests.refusals import refused
from tests.threads import require_threads, threads_now
from tvm_ios.deployment.registry import DeploymentError, read_registry
from tvm_ios.program.program import BufferType


@pytest.fixture(scope="module")
def made(made: Path) -> Path:
    add_rows(made, 6, padding=False)
    return made


def load(app: Path, lanes: int | None = None) -> DeployedModule:
    module = load_module(app, lanes=lanes)
    assert isinstance(module, DeployedModule)
    return module


@pytest.mark.parametrize("lanes", [None, 1])
def test_it_serves_what_python_serves(app: Path, lanes: int | None) -> None:
    session, module = load_deployment(app, lanes=lanes).session(), load(app, lanes)
    for rows in (4, 1, 3, 3, 6, 2, 4):
        session.run(image=image(rows))
        module.run(image=image(rows))
        np.testing.assert_array_equal(module.get_output(0), session.get_output(0))
        np.testing.assert_array_equal(module.get_output("result"), expected(image(rows)))
        assert module.chosen()["id"] == session.entry.id
        assert module.input_info() == module.output_info() == ((rows, 4), "float32")
        np.testing.assert_array_equal(module.get_input(), image(rows))
        out = np.zeros((rows, 4), "float32")
        assert module.get_output(0, out) is out
        np.testing.assert_array_equal(out, expected(image(rows)))


def test_tvms_runtime_loads_it_by_path(app: Path) -> None:
    module = tvm.runtime.load_module(str(app / "model.tvm_ios"))
    module["set_input"]("image", tvm_ffi.from_dlpack(image(3)))
    module["run"]()
    got = np.from_dlpack(module["get_output"](0))
    np.testing.assert_array_equal(got, expected(image(3)))
    assert (module["get_num_inputs"](), module["get_output_name"](0)) == (1, "result")
    one = tvm.runtime.load_module(str(next((app / "entries").iterdir()) / "model.tvm_ios"))
    assert not one.implements_function("chosen")


def test_it_says_what_it_has(app: Path) -> None:
    module = load(app)
    assert module.input_info() == module.output_info("result") == ((-1, 4), "float32")
    about = {str(e["id"]): e for e in module.entries()}
    registry = read_registry(app)
    assert list(about) == [e.id for e in registry.entries]
    for entry in registry.entries:
        said = about[entry.id]
        assert (said["lanes"], said["batch"]) == (entry.lanes, entry.batch)
        assert (said["padding"], said["latency_ms"]) == (entry.padding, None)
        assert said["inputs"] == {"image": (entry.inputs[0].shape, "float32")}
        assert said["misfit"] == ""
    two_lanes = [e["misfit"] for e in load(app, 1).entries() if e["lanes"] == 2]
    assert two_lanes == ["it has 2 lanes, and 1 may be used"]


def test_each_program_keeps_what_it_was_given(app: Path) -> None:
    module = load(app)
    module.run(image=image(3))
    assert len(module.benchmark(2, 3)) == 3
    spans = module.profile()
    assert {(s["lane"], s["kernel"]) for s in spans} == {(0, "_scaled4_0"), (1, "_scaled4_0")}
    module.run(image=image(1))
    module.run(image=image(3))
    np.testing.assert_array_equal(module.get_output(), expected(image(3)))
    module.close()
    np.testing.assert_array_equal(module.get_output(), expected(image(3)))
    with refused(BusyError, "closed"):
        module.run()
    with refused(BusyError, "closed"):
        module.run(image=image(6))


@pytest.mark.parametrize(
    ("call", "kind", "named"),
    [
        (lambda m: m.run(), SessionError, ["'image'", "set"]),
        (lambda m: m.get_input(), SessionError, ["'image'", "set"]),
        (lambda m: m.get_output(), SessionError, ["'result'", "run"]),
        (lambda m: m.chosen(), SessionError, ["run"]),
        (lambda m: m.set_input("nose", image(1)), SessionError, ["'nose'", "image"]),
        (lambda m: m.run(image=image(7)), DeploymentError, ["7x4", "4x4 or fewer rows", "6x4"]),
        (lambda m: m.run(image=image(5)), DeploymentError, ["5x4"]),
        (lambda m: m.run(image=image(0)), DeploymentError, ["0x4"]),
        (lambda m: m.run(image=image(4)[:, :3]), DeploymentError, ["4x3"]),
        (lambda m: m.run(image=image(4).astype("int32")), SessionError, ["int32[4, 4]", "float32"]),
        (
            lambda m: m.module["set_input"](0, tvm_ffi.from_dlpack(np.zeros((4, 4), "f")[:, ::2])),
            SessionError,
            ["'image'", "contiguous"],
        ),
    ],
)
def test_wrong_use_is_told(
    app: Path, call: Callable[[Any], Any], kind: type[Exception], named: list[object]
) -> None:
    module = load(app)
    with refused(kind, *named):
        call(module)
    module.run(image=image(2))
    with refused(SessionError, "float32[2, 4]", "float32[4, 4]"):
        module.get_output(0, np.zeros((4, 4), "float32"))
    np.testing.assert_array_equal(module.get_output(), expected(image(2)))


def test_a_second_thread_is_refused(app: Path) -> None:
    module = load(app)
    module.run(image=image(4))
    said: list[str] = []
    running = threading.Event()

    def measure() -> None:
        running.set()
        try:
            module.benchmark(2000, 100)
        except SessionError as error:
            said.append(str(error))

    # On a busy machine the other thread may end before this one comes.
    for _ in range(100):
        thread = threading.Thread(target=measure)
        thread.start()
        running.wait()
        while thread.is_alive() and not said:
            try:
                module.set_input(image=image(1))
            except SessionError as error:
                said.append(str(error))
        thread.join()
        if said:
            break
        running.clear()
    # Each of the two may have been inside when the other came.
    assert set(said) == {"this session is in use by another thread; make one session a thread"}


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda d: d.update(version=3), ["version 3", "reads 1 and 2"]),
        (lambda d: d.update(format="x"), ["not", "tvm-ios deployment"]),
        (lambda d: d.pop("entries"), ["'entries'"]),
        (lambda d: d.update(entries=[]), ["no entries", "optimize"]),
        (lambda d: d["entries"][0].update(id="../x"), ["'../x'"]),
        (lambda d: d["entries"][0].update(batch=9), ["another batch"]),
        (lambda d: d["entries"][0]["inputs"][0].update(name="x"), ["not those of other entries"]),
        (lambda d: d["entries"][0]["inputs"][0].update(shape=[-2, 4]), ["count"]),
        (lambda d: d["entries"][0].update(inputs=d["entries"][0]["inputs"] * 2), ["'image'"]),
        (lambda d: d["entries"][0].update(latency_ms="fast"), ["number"]),
    ],
)
def test_a_registry_that_misstates_is_refused(
    app: Path, edit: Callable[[Any], object], named: list[object]
) -> None:
    rewrite(app, edit)
    with refused(DeploymentError, app, *named):
        load(app)


def test_a_damaged_registry_is_refused(app: Path) -> None:
    file = app / "deployment.json"
    file.write_bytes(file.read_bytes().replace(b'"lanes": 1', b'"lanes": 3', 1))
    with refused(DeploymentError, file, "damaged"):
        load(app)
    file.unlink()
    with refused(DeploymentError, app, "deployment.json"):
        tvm_ffi.get_global_func("tvm_ios.load_deployment")(str(app), 1)


def test_a_registry_of_other_programs_is_found_out(app: Path) -> None:
    def swap(data: Any) -> None:
        one, four = data["entries"][0], data["entries"][2]
        one["id"], four["id"] = four["id"], one["id"]

    rewrite(app, swap)
    module = load(app)
    for rows in (1, 4):
        with refused(DeploymentError, "'image'", "deployment.json"):
            module.run(image=image(rows))
    module.run(image=image(6))
    np.testing.assert_array_equal(module.get_output(), expected(image(6)))


def test_rows_of_outputs_that_have_none_are_refused(tmp_path: Path) -> None:
    weights = (Port("result", "w", (4,), "float32"),)
    executable = replace(rows_executable(tmp_path, 6), outputs=weights)
    app = tmp_path / "app"
    add_entry(app, MODEL, IDENTITY, NewEntry(executable, "sequential", padding=True))
    module = load(app)
    with refused(DeploymentError, "'result'", "rows"):
        module.run(image=image(5))
    module.run(image=image(6))
    np.testing.assert_array_equal(module.get_output(), WEIGHTS)


@T.prim_func
def quotients(
    x: T.Buffer((4, 4), "int32"),
    w: T.Buffer((4,), "float32"),
    y: T.Buffer((4, 4), "int32"),
    begin: T.int32,
    end: T.int32,
):
    T.func_attr({"global_symbol": "_quotients_0", "tirx.noalias": True})
    for i in T.serial(end - begin):
        for j in T.serial(4):
            y[begin + i, j] = T.truncdiv(60, x[begin + i, j])


def test_rows_that_lack_are_numbers_that_were_given(tmp_path: Path) -> None:
    """Zeros would end the process here."""
    library = tmp_path / "quotients.so"
    compiled = tvm.compile(tvm.IRModule({"_quotients_0": quotients}), tvm.target.Target("llvm"))
    compiled.export_library(str(library))
    rows = rows_executable(tmp_path, 4)
    kind = BufferType((4, 4), "int32")
    x, w, y = rows.program.buffers
    buffers = (replace(x, type=kind), w, replace(y, type=kind))
    executable = replace(
        rows,
        program=replace(rows.program, buffers=buffers, kernels=("_quotients_0",)),
        kernels=library,
        inputs=(replace(rows.inputs[0], dtype="int32"),),
        outputs=(replace(rows.outputs[0], dtype="int32"),),
    )
    app = tmp_path / "app"
    add_entry(app, MODEL, IDENTITY, NewEntry(executable, "sequential", padding=True))
    divisors = np.arange(1, 9, dtype="int32").reshape(2, 4)
    for model in (load(app), load_deployment(app).session()):
        model.run(image=divisors)
        np.testing.assert_array_equal(model.get_output(0), 60 // divisors)


@pytest.mark.parametrize("file", ["program.json", "../../kernels", "../../weights"])
def test_a_damaged_program_leaves_the_others(app: Path, file: str) -> None:
    module = load(app)
    broken = next(e.id for e in read_registry(app).entries if e.batch == 6)
    path = app / "entries" / broken / file
    if path.is_dir():
        needed = json.loads((app / "entries" / broken / "meta.json").read_text())["libraries"]
        path = path / Path(next(iter(needed))).name if "kernels" in file else next(path.iterdir())
    original = path.read_bytes()
    path.write_bytes(original + b" ")
    with refused(ExecutableError, path.name, "damaged"):
        module.run(image=image(6))
    if "weights" not in file:
        module.run(image=image(1))
    path.write_bytes(original)
    module.run(image=image(6))
    np.testing.assert_array_equal(module.get_output(), expected(image(6)))


WAITING = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void wait_until_told(void) {
  close(open(FOLDER "/begun", O_CREAT | O_WRONLY, 0600));
  while (access(FOLDER "/go", F_OK) != 0) usleep(1000);
}
"""


def test_closing_while_a_program_is_opened_ends_its_threads(tmp_path: Path) -> None:
    executable = rows_executable(tmp_path, 4, lanes=2)
    (tmp_path / "waiting.c").write_text(WAITING)
    compile_cpp(
        tmp_path / "waiting.so",
        [tmp_path / "waiting.c"],
        "-shared",
        "-fPIC",
        f'-DFOLDER="{tmp_path}"',
        "-Wl,--no-as-needed",
        str(tmp_path / "rows4.so"),
        f"-Wl,-rpath,{tmp_path}",
    )
    app, begun, go = tmp_path / "app", tmp_path / "begun", tmp_path / "go"
    executable = replace(executable, kernels=tmp_path / "waiting.so")
    add_entry(app, MODEL, IDENTITY, NewEntry(executable, "sequential", padding=True))
    module, threads = load(app), threads_now()
    module.set_input(image=image(4))
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(module.run)
        while not begun.exists():
            time.sleep(1e-3)
        module.close()
        go.touch()
        with refused(BusyError, "closed"):
            running.result()
    require_threads(threads)


def test_thirty_deployments_leave_no_thread_and_no_file(app: Path) -> None:
    def state() -> tuple[int, int, int]:
        maps = Path("/proc/self/maps").read_text().count("/kernels/")
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), maps

    def one() -> None:
        module = load(app)
        for rows in (1, 4, 6):
            module.run(image=image(rows))

    one()
    before = state()
    for _ in range(30):
        one()
    assert state() == before
