"""Executables as modules of TVM's runtime: what they compute, and what they refuse."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

from runtime_ext.execution import runtime_module
from runtime_ext.execution.executable import Executable
from runtime_ext.execution.packages.package import seal
from runtime_ext.native_errors import ExecutableError, ForkError, SessionError
from tests.cpp_compiler import compiler
from tests.execution.small_executable import IMAGE, PROGRAM, SHAPE, STEPS, WEIGHTS, change
from tests.refusals import refused
from tvm_ios.files.array_files import Array
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Buffer, BufferType, Role


def expected() -> dict[str, Array]:
    both = np.concatenate([IMAGE[:4] * WEIGHTS[:4], IMAGE[:4] - 1])
    return {"result": both[::-1] + np.float32(3), "inner": both}


def test_what_users_of_graph_modules_know(saved: Path) -> None:
    module = tvm.runtime.load_module(str(saved / "model.tvm_ios"))
    module["set_input"]("image", tvm_ffi.from_dlpack(IMAGE.copy()))
    module["set_input"](1, tvm_ffi.from_dlpack(STEPS.copy()))
    for _ in range(3):
        module["run"]()
    want = expected()
    np.testing.assert_array_equal(np.from_dlpack(module["get_output"](0)), want["result"])
    np.testing.assert_array_equal(np.from_dlpack(module["get_output"]("inner")), want["inner"])
    np.testing.assert_array_equal(np.from_dlpack(module["get_output"](-1)), want["inner"])
    into = np.zeros(SHAPE, "float32")
    module["get_output"](0, tvm_ffi.from_dlpack(into))
    np.testing.assert_array_equal(into, want["result"])
    np.testing.assert_array_equal(np.from_dlpack(module["get_input"]("image")), IMAGE)
    assert (module["get_num_inputs"](), module["get_num_outputs"]()) == (2, 2)
    assert [str(n) for n in module["get_input_names"]()] == ["image", "steps"]
    assert module["get_input_name"](1) == "steps"
    assert module["get_output_name"](-1) == "inner"
    assert module["get_input_index"]("steps") == 1
    info = module["input_info"]("steps")
    assert (info["name"], list(info["shape"]), info["dtype"]) == ("steps", [1], "int64")
    assert not module.implements_function("no_such_function")


@pytest.mark.parametrize("name", ["out", "out/model.tvm_ios", "out.tar"])
def test_equals_the_python_session(executable: Executable, tmp_path: Path, name: str) -> None:
    executable.save(tmp_path / name.partition("/")[0])
    session = executable.session()
    session.run(image=IMAGE, steps=STEPS)
    module = runtime_module.load_module(tmp_path / name)
    module.run(image=IMAGE, steps=STEPS)
    for number, port in enumerate(executable.outputs):
        want = session.get_output(port.name)
        np.testing.assert_array_equal(module.get_output(number), want)
        out = np.zeros_like(want)
        assert module.get_output(port.name, out) is out
        np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(module.get_input("steps"), STEPS)
    assert (module.get_num_inputs(), module.get_num_outputs()) == (2, 2)
    assert module.get_input_names() == ["image", "steps"]
    assert module.get_output_names() == ["result", "inner"]
    assert module.input_info() == (SHAPE, "float32")
    assert module.output_info("inner") == (SHAPE, "float32")
    assert len(module.benchmark(number=2, repeat=3)) == 3
    spans = module.profile()
    assert [(s["lane"], s["launch"], s["unit"], s["kernel"]) for s in spans] == [
        (0, 0, "first", "upper"),
        (0, 1, "third", "finish"),
        (1, 0, "second", "lower_half"),
        (1, 1, "third", "finish"),
    ]
    assert all(0 <= s["begin"] <= s["end"] for s in spans)
    module.close()
    np.testing.assert_array_equal(module.get_output(0), expected()["result"])


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda m: m.run(), ["'image'", "set"]),
        (lambda m: m.set_input("nose", IMAGE), ["'nose'", "image, steps"]),
        (lambda m: m.set_input(2, IMAGE), ["input 2"]),
        (lambda m: m.get_output(), ["'result'", "run"]),
        (lambda m: m.get_output("image"), ["'image'", "result, inner"]),
        (lambda m: m.set_input(image=IMAGE[:1]), ["'image'", "float32[8, 4]", "float32[1, 4]"]),
        (lambda m: m.set_input(image=IMAGE.astype("int32")), ["'image'", "int32[8, 4]"]),
        (
            lambda m: m.module["set_input"]("image", tvm_ffi.from_dlpack(np.zeros((4, 8), "f").T)),
            ["'image'", "contiguous"],
        ),
    ],
)
def test_wrong_use_is_told(
    saved: Path, call: Callable[[Any], Any], named: Sequence[object]
) -> None:
    module = runtime_module.load_module(saved)
    with refused(SessionError, *named):
        call(module)


def test_benchmarks_of_nothing_are_refused(saved: Path) -> None:
    module = runtime_module.load_module(saved)
    module.set_input(image=IMAGE, steps=STEPS)
    with refused(ValueError, "one run"):
        module.benchmark(0, 1)


def test_a_kernel_that_the_library_lacks_is_refused(saved: Path) -> None:
    change(saved, "program.json", lambda p: p["kernels"].__setitem__(0, "nose"))
    with refused(ExecutableError, "kernel nose"):
        runtime_module.load_module(saved)


def test_kernels_with_unknown_symbols_are_refused_before_they_run(saved: Path) -> None:
    source = saved.parent / "lost.cc"
    source.write_text("int no_such_symbol(); int f() { return no_such_symbol(); }")
    subprocess.run([compiler(), "-shared", "-fPIC", source, "-o", saved / "kernels.so"], check=True)
    seal(saved)
    with refused(ExecutableError, "undefined symbol", "_Z14no_such_symbolv"):
        runtime_module.load_module(saved)


def test_a_tar_is_unpacked_and_its_folder_goes(
    executable: Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable.save(tmp_path / "x.tar")
    with refused(ExecutableError, "x.tar", "unpack"):
        tvm_ffi.get_global_func("tvm_ios.load_executable")(str(tmp_path / "x.tar"))
    # What loads it from Python has a folder, which workers read, as long as the module is there.
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    module = runtime_module.load_module(tmp_path / "x.tar")
    module.run(image=IMAGE, steps=STEPS)
    assert os.listdir(tmp_path / "temporary")
    del module
    gc.collect()
    assert not os.listdir(tmp_path / "temporary")


def test_a_session_in_use_and_a_forked_child_are_refused(saved: Path) -> None:
    module = runtime_module.load_module(saved)
    module.set_input(image=IMAGE, steps=STEPS)
    said: list[str] = []
    running = threading.Event()

    def measure() -> None:
        running.set()
        try:
            module.benchmark(2000, 100)
        except SessionError as error:  # The other thread was in it first.
            said.append(str(error))

    thread = threading.Thread(target=measure)
    thread.start()
    running.wait()
    while thread.is_alive() and not said:
        try:
            module.get_input(0)
        except SessionError as error:
            said.append(str(error))
    thread.join()
    assert said == ["this session is in use by another thread; make one session a thread"]
    child = os.fork()
    if child == 0:
        try:
            module.run()
        except ForkError:
            os._exit(7)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    module.run()


@pytest.fixture
def quiet_heap() -> Iterator[None]:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    yield
    gc.collect()


def test_a_hundred_modules_leave_no_thread_no_file_and_no_memory(
    executable: Executable, tmp_path: Path, quiet_heap: None
) -> None:
    """Bound: 8 MiB after a hundred modules of 16 MiB of scratch each."""
    scratch = replace(PROGRAM.buffers[-1], type=BufferType((1 << 21,), "float64"))
    program = replace(PROGRAM, buffers=(*PROGRAM.buffers[:-1], scratch))
    large = MemoryPlan(1 << 24, {7: 0})
    replace(executable, program=program, plan=large).save(tmp_path / "out")

    def one() -> None:
        module = runtime_module.load_module(tmp_path / "out")
        module.run(image=IMAGE, steps=STEPS)

    def state() -> tuple[int, int, int, int]:
        gc.collect()
        # What the allocator keeps for later counts for nobody.
        ctypes.CDLL(None).malloc_trim(0)
        maps = Path("/proc/self/maps").read_text().count("kernels.so")
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        tasks, files = len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
        return tasks, files, maps, pages * os.sysconf("SC_PAGE_SIZE")

    for _ in range(5):
        one()
    before = state()
    for _ in range(100):
        one()
    after = state()
    assert after[:3] == before[:3]
    assert after[3] - before[3] < 8 << 20


def test_constants_are_shared_between_modules(executable: Executable, tmp_path: Path) -> None:
    """Two modules of 32 MiB of constants take little more than one."""
    kept: list[Any] = []
    weights = np.ones((1 << 23,), "float32")
    buffers = (*PROGRAM.buffers, Buffer("more", BufferType((1 << 23,)), Role.CONSTANT))
    big = replace(
        executable,
        program=replace(PROGRAM, buffers=buffers),
        constants={"w": WEIGHTS, "more": weights},
    )
    big.save(tmp_path / "big")
    del weights, big
    sizes: list[int] = []
    for _ in range(3):
        kept.append(runtime_module.load_module(tmp_path / "big"))
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        sizes.append(pages * os.sysconf("SC_PAGE_SIZE"))
    assert sizes[2] - sizes[0] < 16 << 20
