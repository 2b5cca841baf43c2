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

from runtime_ext.deployment.deployment import load_deployment
from runtime_ext.execution.executable import Executable
from runtime_ext.execution.ports import Port
from runtime_ext.machine.cpu_features import required_features
from runtime_ext.native_library import native_library_path
from tests.deployment.rows_model import add_range, add_rows, expected, range_executable
from tests.large_temporary import with_a_large_temporary
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Buffer, BufferType, KernelUse, Launch, Program, Role, Wait

EXAMPLE = Path(__file__).parents[2] / "examples" / "cpp"
TARGET = {"kind": "llvm", "mcpu": "x86-64-v2"}


@T.prim_func
def curve(
    x: T.Buffer((2, 50), "float32"), y: T.Buffer((2, 50), "float32"), begin: T.int32, end: T.int32
):
    T.func_attr({"global_symbol": "curve", "tirx.noalias": True})
    for i in T.serial(end - begin):
        for j in T.serial(50):
            y[begin + i, j] = T.exp(x[begin + i, j]) / T.float32(3)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
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
    return build


@pytest.fixture(scope="module")
def program(build: Path) -> Path:
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


def run(program: Path, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
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


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    app = tmp_path_factory.mktemp("deployed") / "app"
    add_rows(app, 1)
    add_rows(app, 4)
    return app


def test_a_deployment_serves_every_batch_without_python(
    build: Path, app: Path, tmp_path: Path
) -> None:
    rows = (1, 3, 4, 2)
    shapes = [f"image:{n}x4" for n in rows]
    done = run(build / "run_deployment", "-o", tmp_path, app, *shapes)
    assert (done.returncode, done.stderr) == (0, "")
    loaded, *lines = done.stdout.splitlines()
    assert loaded.startswith("2 programs, loaded in ")
    session = load_deployment(app).session()
    for run_number, n in enumerate(rows):
        image, result = (
            np.fromfile(tmp_path / f"{run_number}.{name}.raw", "float32").reshape(n, 4)
            for name in ("image", "result")
        )
        np.testing.assert_array_equal(result, expected(image))
        session.run(image=image)
        assert lines[run_number].startswith(f"image:{n}x4: {session.entry.id}, first ")


@pytest.mark.parametrize("kind", ["executable", "deployment"])
def test_a_range_is_run_at_every_shape_without_python(
    build: Path, tmp_path: Path, kind: str
) -> None:
    if kind == "deployment":
        add_range(tmp_path / "model", 1, 9)
    else:
        range_executable(tmp_path, 1, 9, lanes=2).save(tmp_path / "model")
    rows = (1, 9, 4, 9, 2)
    shapes = [f"image:{n}x4" for n in rows]
    for options in ((), ("--reserve",)):
        folder = tmp_path / f"out{len(options)}"
        folder.mkdir()
        done = run(*(build / "run_deployment", "-o", folder, *options, tmp_path / "model", *shapes))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("1 programs, loaded in ")
        for run_number, n in enumerate(rows):
            image, result = (
                np.fromfile(folder / f"{run_number}.{name}.raw", "float32").reshape(n, 4)
                for name in ("image", "result")
            )
            np.testing.assert_array_equal(result, expected(image))
    done = run(build / "run_deployment", tmp_path / "model", "image:10x4", "image:3x4")
    assert done.returncode == 1
    assert "1..9" in done.stderr
    assert "image:3x4: " in done.stdout


def test_shapes_that_no_program_serves_are_told(build: Path, app: Path) -> None:
    done = run(build / "run_deployment", app, "image:5x4", "x:1", "image:2x4")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "image:5x4: no program takes image:5x4; there are those for image:1x4; "
        "image:4x4 or fewer rows",
        "x:1: there is no input 'x'; there are: image",
    ]
    assert "image:2x4: " in done.stdout
    assert run(build / "run_deployment", app).returncode == 2
    assert "there is no executable" in run(build / "run_deployment", app / "x", "x:1").stderr


@pytest.mark.parametrize("workers", [(), (1,), (3,)])
def test_many_requests_have_the_bits_of_single_ones(
    build: Path, executable: Executable, tmp_path: Path, workers: tuple[int, ...]
) -> None:
    executable.save(tmp_path / "model")
    (tmp_path / "out").mkdir()
    command = (build / "run_many", "-o", tmp_path / "out", tmp_path / "model", 7, *workers)
    done = run(*command)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("7 requests: ")
    session = executable.session()
    images = set[bytes]()
    for number in range(7):
        image, output = (
            np.fromfile(tmp_path / "out" / f"{number}.{name}.raw", "float32").reshape(2, 50)
            for name in ("image", "probabilities")
        )
        images.add(image.tobytes())
        session.run(image=image)
        np.testing.assert_array_equal(output, session.get_output())
    assert len(images) == 7
    assert run(build / "run_many", tmp_path / "model").returncode == 2
    assert "there is no executable" in run(build / "run_many", tmp_path / "none", 1).stderr
