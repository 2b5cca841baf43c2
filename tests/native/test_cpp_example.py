"""The example in ``examples/cpp``: built by its two commands, run without Python."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T

from runtime_ext.execution.executable import Executable
from runtime_ext.execution.ports import Port
from runtime_ext.machine.cpu_features import required_features
from runtime_ext.native_library import native_library_path
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Buffer, BufferType, KernelUse, Launch, Program, Role, Wait

EXAMPLE = Path(__file__).parents[2] / "examples" / "cpp"
TARGET = {"kind": "llvm", "mcpu": "x86-64-v2"}


@T.prim_func
def curve(
    x: T.Buffer((2, 50), "float32"),
    y: T.Buffer((2, 50), "float32"),
    begin: T.int32,
    end: T.int32,
):
    T.func_attr({"global_symbol": "curve", "tirx.noalias": True})
    for i in T.serial(end - begin):
        for j in T.serial(50):
            y[begin + i, j] = T.exp(x[begin + i, j]) / T.float32(3)


@T.prim_func
def with_a_large_temporary(
    x: T.Buffer((2, 50), "float32"),
    y: T.Buffer((2, 50), "float32"),
    begin: T.int32,
    end: T.int32,
):
    T.func_attr({"global_symbol": "curve", "tirx.noalias": True})
    large = T.alloc_buffer((50, 1000), "float32")
    for i in T.serial(end - begin):
        for j, k in T.grid(50, 1000):
            large[j, k] = x[begin + i, j]
        for j in T.serial(50):
            y[begin + i, j] = large[49 - j, 999]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("cmake") is None:
        pytest.skip("there is no cmake")
    build = tmp_path_factory.mktemp("build")
    library = native_library_path()
    for command in (
        [f"-DPython_EXECUTABLE={sys.executable}", f"-DTVM_IOS_LIBRARY={library}", "-S", EXAMPLE],
        ["--build"],
    ):
        where = [build] if command == ["--build"] else ["-B", build]
        done = subprocess.run(
            ["cmake", *map(str, [*command, *where])], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return build / "run_model"


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Executable:
    library = compiled(curve, tmp_path_factory.mktemp("kernels") / "k.so")
    kind = BufferType((2, 50))
    names = (("x", Role.INPUT), ("h", Role.INTERMEDIATE), ("y", Role.OUTPUT))
    return Executable(
        program=Program(
            lanes=(
                (Launch(0, (0, 1), 0, 2, 0), Launch(0, (1, 2), 0, 1, 1)),
                (Wait(0, 1), Launch(0, (1, 2), 1, 2, 1)),
            ),
            kernels=("curve",),
            buffers=tuple(Buffer(name, kind, role) for name, role in names),
            units=("first", "second"),
            uses=(KernelUse(2, 2, (1,)),),
        ),
        plan=MemoryPlan(448, {1: 0}),
        kernels=library,
        constants={},
        inputs=(Port("image", "x", (2, 50), "float32"),),
        outputs=(Port("probabilities", "y", (2, 50), "float32"),),
        schedule={},
        target="llvm -mcpu=x86-64-v2",
        features=required_features(TARGET),
        fingerprint="0",
    )


def compiled(function: Any, path: Path) -> Path:
    module = tvm.IRModule({"curve": function})
    tvm.compile(module, target=tvm.target.Target(TARGET)).export_library(str(path))
    return path


def run(program: Path, *arguments: Path, **more: str) -> subprocess.CompletedProcess[str]:
    # Nothing of this process's Python is in its environment.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TVM"))}
    environment |= more
    return subprocess.run(
        [str(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=900,
        env=environment,
    )


def test_computes_the_same_bits_without_python(
    program: Path, executable: Executable, tmp_path: Path
) -> None:
    image = np.random.default_rng(1).standard_normal((2, 50)).astype("float32")
    image.tofile(tmp_path / "in.raw")
    executable.save(tmp_path / "model")
    done = run(program, tmp_path / "model", tmp_path / "in.raw", tmp_path / "out.raw")
    assert done.returncode == 0, done.stderr
    session = executable.session()
    session.run(image=image)
    want = session.get_output()
    output = np.fromfile(tmp_path / "out.raw", "float32").reshape(want.shape)
    np.testing.assert_array_equal(output, want)
    first, *top, latency = done.stdout.splitlines()
    assert first == "probabilities: 100 values"
    assert [int(line.split()[0]) for line in top] == list(np.argsort(-want.reshape(-1))[:5])
    assert latency.startswith("latency: median ")
    # Random numbers where no file is given.
    assert run(program, tmp_path / "model").returncode == 0

    libraries = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True)
    assert "libtvm_ffi" in libraries.stdout
    assert "libtvm_ios_native" in libraries.stdout
    assert "libpython" not in libraries.stdout
    assert "libtvm_runtime" not in libraries.stdout


def test_what_is_wrong_is_said_in_one_sentence(
    program: Path, executable: Executable, tmp_path: Path
) -> None:
    executable.save(tmp_path / "model")
    (tmp_path / "short.raw").write_bytes(b"12")
    for arguments, code, message in (
        ((), 2, "usage: "),
        ((tmp_path / "none",), 1, "ExecutableError: there is no executable "),
        ((tmp_path / "model", tmp_path / "short.raw"), 1, "does not hold 400 bytes"),
    ):
        done = run(program, *arguments)
        assert (done.returncode, done.stdout) == (code, "")
        assert message in done.stderr
        assert done.stderr.count("\n") == 1
    (tmp_path / "model" / "kernels.so").write_bytes(b"damaged")
    assert "kernels.so of" in run(program, tmp_path / "model").stderr


def test_kernels_that_need_tvms_runtime_say_so(
    program: Path, executable: Executable, tmp_path: Path
) -> None:
    library = compiled(with_a_large_temporary, tmp_path / "k.so")
    replace(executable, kernels=library).save(tmp_path / "model")
    done = run(program, tmp_path / "model")
    assert done.returncode == 1
    assert "its kernels need libtvm_runtime.so, so load or link that too" in done.stderr
    folder = Path(tvm.__file__).parent / "lib"
    done = run(program, tmp_path / "model", LD_PRELOAD=str(folder / "libtvm_runtime.so"))
    assert done.returncode == 0, done.stderr
