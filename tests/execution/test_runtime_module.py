"""Executables as modules of TVM's runtime: what they compute, and what they refuse."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
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
from tvm.script import tirx as T

from runtime_ext.execution import runtime_module
from runtime_ext.execution.executable import Executable
from runtime_ext.execution.package import seal
from runtime_ext.execution.ports import Port
from runtime_ext.machine.cpu_features import required_features
from runtime_ext.native_errors import ExecutableError, ForkError, SessionError
from tests.cpp_compiler import compiler
from tests.refusals import refused
from tvm_ios.program.happens_before import check_races
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import (
    Buffer,
    BufferType,
    KernelUse,
    Launch,
    Part,
    Program,
    Role,
    Wait,
)

TARGET = {"kind": "llvm", "mcpu": "x86-64-v2"}
SHAPE = (8, 4)
IMAGE = np.arange(32, dtype="float32").reshape(SHAPE) / 7
STEPS = np.array([3], "int64")


@T.prim_func
def upper(
    x: T.Buffer((8, 4), "float32"),
    w: T.Buffer((8, 4), "float32"),
    y: T.Buffer((8, 4), "float32"),
    begin: T.int32,
    end: T.int32,
):
    T.func_attr({"global_symbol": "upper", "tirx.noalias": True})
    for i in T.serial(end - begin):
        for j in T.serial(4):
            y[begin + i, j] = x[begin + i, j] * w[begin + i, j]


@T.prim_func
def lower_half(
    x: T.Buffer((8, 4), "float32"),
    y: T.Buffer((8, 4), "float32"),
    begin: T.int32,
    end: T.int32,
):
    T.func_attr({"global_symbol": "lower_half", "tirx.noalias": True})
    for i in T.serial(end - begin):
        for j in T.serial(4):
            y[4 + begin + i, j] = x[begin + i, j] - T.float32(1)


@T.prim_func
def finish(
    both: T.Buffer((8, 4), "float32"),
    steps: T.Buffer((1,), "int64"),
    y: T.Buffer((8, 4), "float32"),
    begin: T.int32,
    end: T.int32,
):
    T.func_attr({"global_symbol": "finish", "tirx.noalias": True})
    for i in T.serial(end - begin):
        for j in T.serial(4):
            y[begin + i, j] = both[7 - begin - i, j] + T.Cast("float32", steps[0])


IMAGE_TYPE = BufferType(SHAPE)
#: Two producers write into the halves of one buffer, on two lanes.
PROGRAM = Program(
    lanes=(
        (Launch(0, (0, 2, 4), 0, 4, 0), Wait(1, 1), Launch(2, (3, 1, 6), 0, 5, 2)),
        (
            Launch(1, (0, 5), 0, 4, 1),
            Wait(0, 1),
            Launch(2, (3, 1, 6), 5, 8, 2),
        ),
    ),
    kernels=("upper", "lower_half", "finish"),
    buffers=(
        Buffer("x", IMAGE_TYPE, Role.INPUT),
        Buffer("n", BufferType((1,), "int64"), Role.INPUT),
        Buffer("w", IMAGE_TYPE, Role.CONSTANT),
        Buffer("both", IMAGE_TYPE, Role.OUTPUT),
        Buffer("top", IMAGE_TYPE, Role.INTERMEDIATE, Part(3, 0, 0, 4)),
        Buffer("bottom", IMAGE_TYPE, Role.INTERMEDIATE, Part(3, 0, 4, 8)),
        Buffer("y", IMAGE_TYPE, Role.OUTPUT),
        Buffer("spare", BufferType((100,), "float64"), Role.SCRATCH),
    ),
    units=("first", "second", "third"),
    uses=(KernelUse(4, 3, (2,)), KernelUse(4, 2, (1,)), KernelUse(8, 3, (2,))),
)
WEIGHTS = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Executable:
    check_races(PROGRAM)
    library = tmp_path_factory.mktemp("kernels") / "k.so"
    module = tvm.IRModule({"upper": upper, "lower_half": lower_half, "finish": finish})
    tvm.compile(module, target=tvm.target.Target(TARGET)).export_library(str(library))
    return Executable(
        program=PROGRAM,
        plan=MemoryPlan(1024, {7: 192}),
        kernels=library,
        constants={"w": WEIGHTS},
        inputs=(Port("image", "x", SHAPE, "float32"), Port("steps", "n", (1,), "int64")),
        outputs=(Port("result", "y", SHAPE, "float32"), Port("inner", "both", SHAPE, "float32")),
        schedule={"format": "any"},
        target="llvm -mcpu=x86-64-v2",
        features=required_features(TARGET),
        fingerprint="0",
        notes={"latency_ms": 1e-07, "who": "ümläut \U0001f600", "many": [1e22, -0.0, None, True]},
    )


@pytest.fixture
def saved(executable: Executable, tmp_path: Path) -> Path:
    executable.save(tmp_path / "out")
    return tmp_path / "out"


def expected() -> dict[str, np.ndarray[Any, Any]]:
    both = np.concatenate([IMAGE[:4] * WEIGHTS[:4], IMAGE[:4] - 1])
    return {"result": both[::-1] + np.float32(3), "inner": both}


def change(saved: Path, file: str, edit: Callable[[Any], Any]) -> None:
    """Change a JSON file (or make it, from an empty object), and the checksums to match."""
    data = json.loads((saved / file).read_text()) if (saved / file).exists() else {}
    data = edit(data) or data
    (saved / file).write_text(json.dumps(data))
    seal(saved)


#: Offsets of all buffers but the last, which is the only one in the arena.
OUTSIDE = (-1,) * 7


def plan(*offsets: int, nbytes: int = 1024, version: int = 1) -> Callable[[Any], Any]:
    return lambda _: {
        "format": "tvm-ios memory plan",
        "version": version,
        "nbytes": nbytes,
        "offsets": offsets,
    }


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


def refuses(path: Path, *named: object) -> None:
    with refused(ExecutableError, *named):
        runtime_module.load_module(path)


@pytest.mark.parametrize("place", [0.02, 0.5, 0.98])
@pytest.mark.parametrize(
    "name",
    [
        *("kernels.so", "memory.json", "meta.json", "params.safetensors", "program.json"),
        "schedule.json",
    ],
)
def test_a_flipped_byte_is_refused(saved: Path, name: str, place: float) -> None:
    data = bytearray((saved / name).read_bytes())
    data[int(len(data) * place)] ^= 1
    (saved / name).write_bytes(bytes(data))
    refuses(saved, saved)


@pytest.mark.parametrize(
    "name", ["kernels.so", "memory.json", "meta.json", "program.json", "model.tvm_ios"]
)
def test_a_truncated_or_missing_file_is_refused(saved: Path, name: str) -> None:
    data = (saved / name).read_bytes()
    (saved / name).write_bytes(data[: len(data) // 2])
    refuses(saved, name, "damaged")
    (saved / name).unlink()
    refuses(saved, name, "lacks")


@pytest.mark.parametrize(
    ("file", "edit", "named"),
    [
        ("meta.json", lambda m: m | {"version": 99}, ["version 99"]),
        ("meta.json", lambda m: m | {"format": "a poem"}, ["not a tvm-ios executable"]),
        ("meta.json", lambda m: m | {"machine": "riscv64"}, ["riscv64"]),
        ("meta.json", lambda m: m | {"features": ["warp-drive"]}, ["warp-drive"]),
        (
            "meta.json",
            lambda m: m | {"versions": m["versions"] | {"apache-tvm-ffi": "0.99.1"}},
            ["apache-tvm-ffi 0.99.1"],
        ),
        ("meta.json", lambda m: {k: v for k, v in m.items() if k != "inputs"}, ["'inputs'"]),
        ("meta.json", lambda m: m | {"constants": {}}, ["'w'"]),
        (
            "meta.json",
            lambda m: m | {"inputs": [m["inputs"][0] | {"buffer": "nose"}]},
            ["'image'", "'nose'"],
        ),
        (
            "meta.json",
            lambda m: m | {"inputs": [m["inputs"][0] | {"dtype": "float64"}]},
            ["'image'", "float64[8, 4]", "float32[8, 4]"],
        ),
        (
            "program.json",
            lambda p: p["buffers"][3].__setitem__(3, "intermediate"),
            ["memory plan", "program", "buffers"],
        ),
        ("program.json", lambda p: p.update(version=2), ["program of version 3"]),
        ("program.json", lambda p: p.update(lanes=[]), ["lane"]),
        ("program.json", lambda p: p.update(uses=[]), ["launched"]),
        ("program.json", lambda p: p["kernels"].__setitem__(0, "nose"), ["kernel nose"]),
        ("program.json", lambda p: p["lanes"][0].insert(0, ["wait", 1, 2]), ["lane 0", "wait"]),
        ("program.json", lambda p: p["lanes"][0].append(["wait", 7, 1]), ["lane 7"]),
        ("program.json", lambda p: p["lanes"][0].append(["wait", 0.5, 1]), ["count"]),
        ("program.json", lambda p: p["lanes"][0].append(["launch", 0, [0]]), ["3 values"]),
        ("program.json", lambda p: p["lanes"][0][0].__setitem__(4, 9), ["0 to 9"]),
        ("program.json", lambda p: p["lanes"][0][0].__setitem__(2, [0, 1]), ["2 buffers"]),
        ("program.json", lambda p: p["lanes"][0][0].__setitem__(2, [0, 2, 0]), ["input"]),
        ("program.json", lambda p: p["lanes"][0][0].__setitem__(2, [0, 2, 99]), ["exist"]),
        ("program.json", lambda p: p["buffers"][4][4].__setitem__(0, 5), ["part"]),
        ("program.json", lambda p: p["buffers"][7].__setitem__(1, [1 << 61]), ["allocated"]),
        ("program.json", lambda p: p["buffers"][7].__setitem__(2, "handle"), ["'handle'"]),
        ("program.json", lambda p: p["buffers"][2].__setitem__(1, [32]), ["float32[32]"]),
        ("memory.json", plan(*OUTSIDE), ["memory plan", "program", "buffers"]),
        ("memory.json", plan(*OUTSIDE, -1), ["memory plan", "program", "buffers"]),
        ("memory.json", plan(*OUTSIDE[:-1], 0, 0), ["memory plan", "program", "buffers"]),
        ("memory.json", plan(*OUTSIDE, 32), ["'spare'", "byte 32"]),
        ("memory.json", plan(*OUTSIDE, 256), ["'spare'", "byte 256 of 1024"]),
        ("memory.json", plan(version=2), ["memory plan of version 1"]),
    ],
)
def test_what_does_not_fit_is_refused(
    saved: Path, file: str, edit: Callable[[Any], Any], named: Sequence[object]
) -> None:
    change(saved, file, edit)
    refuses(saved, *named)


def test_an_output_in_the_arena_is_refused(saved: Path) -> None:
    change(saved, "program.json", lambda p: p["buffers"][3].__setitem__(3, "intermediate"))
    change(saved, "memory.json", plan(-1, -1, -1, 0, *OUTSIDE[:3], 192))
    refuses(saved, "'inner'", "'both'")


def test_a_lesser_cpu_is_refused(saved: Path) -> None:
    """No machine has all of them."""
    names = ["avx512fp16", "amx-tile", "avx512bf16", "sse4.2"]
    flags = Path("/proc/cpuinfo").read_text()
    missing = [n for n in names[:3] if not re.search(rf"\b{n.replace('-', '_')}\b", flags)]
    if not missing:
        pytest.skip("this machine has all features that are looked for")
    change(saved, "meta.json", lambda m: m | {"features": names})
    refuses(saved, "CPU", missing[0])


def test_kernels_with_unknown_symbols_are_refused_before_they_run(saved: Path) -> None:
    source = saved.parent / "lost.cc"
    source.write_text("int no_such_symbol(); int f() { return no_such_symbol(); }")
    subprocess.run([compiler(), "-shared", "-fPIC", source, "-o", saved / "kernels.so"], check=True)
    seal(saved)
    refuses(saved, "undefined symbol", "_Z14no_such_symbolv")


def test_no_folder_no_executable_and_tars_are_told(
    executable: Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuses(tmp_path / "nothing", tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    refuses(tmp_path / "empty", tmp_path / "empty", "meta.json")
    executable.save(tmp_path / "x.tar")
    with refused(ExecutableError, "x.tar", "unpack"):
        tvm_ffi.get_global_func("tvm_ios.load_executable")(str(tmp_path / "x.tar"))
    # What loads it from Python leaves no folder behind.
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    module = runtime_module.load_module(tmp_path / "x.tar")
    gc.collect()
    module.run(image=IMAGE, steps=STEPS)
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
