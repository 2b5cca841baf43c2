"""Executables run and are explained where TVM, ONNX and what else makes them is not installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T

from runtime_ext.deployment.adding import NewEntry, add_entry
from runtime_ext.execution.executable import Executable, load
from runtime_ext.execution.ports import Port
from runtime_ext.machine.cpu_features import required_features
from runtime_ext.native_errors import ExecutableError
from runtime_ext.native_library import native_library_path
from tests.deployment.rows_model import add_range, expected, image, range_executable
from tests.execution.chain_executable import chain_executable
from tests.execution.small_executable import IMAGE, TARGET, change
from tests.large_temporary import with_a_large_temporary
from tests.refusals import refused
from tvm_ios.files.array_files import write_arrays
from tvm_ios.program.memory_plan import MemoryPlan
from tvm_ios.program.program import Buffer, BufferType, KernelUse, Launch, Program, Role

REPOSITORY = Path(__file__).parents[2]
#: The distributions that running needs; theirs are found by their metadata.
NEEDED = ("apache-tvm-ffi", "numpy", "rich", "typer")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages: ours, and no others than what running needs."""
    folder = tmp_path_factory.mktemp("site")
    for package in ("tvm_ios", "runtime_ext", "relay_passes"):
        (folder / package).symlink_to(REPOSITORY / package)
    waiting = list(NEEDED)
    for name in waiting:
        distribution = metadata.distribution(name)
        # Extras have a marker, and so have older Pythons.
        plain = [text for text in distribution.requires or () if ";" not in text]
        waiting += [n for text in plain if (n := re.split(r"[^\w.-]", text)[0]) not in waiting]
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            (folder / top).symlink_to(Path(str(distribution.locate_file(top))))
    return folder


def python(site: Path, code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(1, {str(site)!r}); {code}"]
        + [str(argument) for argument in arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment | {"TVM_IOS_NATIVE_LIB": str(native_library_path()), "COLUMNS": "200"},
    )


def command(site: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return python(site, "from tvm_ios.__main__ import main; main()", *arguments)


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Executable:
    return chain_executable(tmp_path_factory.mktemp("kernels"))


def test_nothing_else_is_there(site: Path) -> None:
    """Or the tests below would say nothing."""
    for package in ("tvm", "onnx", "onnx_ir", "onnxscript", "ortools", "networkx", "safetensors"):
        assert f"No module named '{package}'" in python(site, f"import {package}").stderr


def test_a_session_computes_the_same(site: Path, executable: Executable, saved: Path) -> None:
    session = executable.session()
    session.run(image=IMAGE)
    write_arrays(saved.parent / "x.npz", {"image": IMAGE})
    output = saved.parent / "y.npz"
    done = command(site, "run", saved, "--input", saved.parent / "x.npz", "--output", output)
    assert done.returncode == 0, done.stderr
    assert "latency of 10 runs" in done.stdout
    with np.load(output) as results:
        for name in ("last", "first"):
            np.testing.assert_array_equal(results[name], session.get_output(name))


def test_it_is_explained(site: Path, saved: Path) -> None:
    done = command(site, "explain", saved, "--repeat", 3, "--json")
    assert done.returncode == 0, done.stderr
    explanation: dict[str, Any] = json.loads(done.stdout)
    assert explanation["lanes"] == 2
    assert explanation["peak"]["gflops"] > 0


def test_it_is_told_of(site: Path, saved: Path) -> None:
    done = command(site, "info", saved)
    assert done.returncode == 0, done.stderr
    assert "x86-64-v2" in done.stdout


def test_a_deployment_is_served(site: Path, executable: Executable, tmp_path: Path) -> None:
    app = tmp_path / "app"
    add_entry(app, "chain", "0" * 64, NewEntry(executable, "sequential"))
    write_arrays(tmp_path / "x.npz", {"image": IMAGE})
    code = (
        "import numpy as np; from runtime_ext.deployment.deployment import load_program; "
        "from runtime_ext.execution.runtime_module import load_module; "
        "x = np.load(sys.argv[2])['image']; s = load_program(sys.argv[1]).session(); "
        "m = load_module(sys.argv[1]); s.run(image=x); m.run(image=x); "
        "assert (s.get_output(0) == m.get_output(0)).all(); np.save(sys.argv[3], m.get_output(0))"
    )
    done = python(site, code, app, tmp_path / "x.npz", tmp_path / "y.npy")
    assert done.returncode == 0, done.stderr
    session = executable.session()
    session.run(image=IMAGE)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), session.get_output())
    picked = command(site, "pick", app, "--lanes", len(executable.program.lanes), "--json")
    assert picked.returncode == 0, picked.stderr
    (entry,) = json.loads(picked.stdout)["entries"]
    assert (entry["fits"], entry["taken"], entry["reason"]) == (True, True, "taken")


@pytest.mark.parametrize("kind", ["executable", "deployment"])
def test_a_range_of_shapes_is_served(site: Path, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "deployment":
        add_range(place, 1, 9, lanes=2)
    else:
        range_executable(tmp_path, 1, 9, lanes=2).save(place)
    for rows in (1, 9, 4):
        write_arrays(tmp_path / "x.npz", {"image": image(rows)})
        given = ("--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz", "--reserve")
        done = command(site, "run", place, *given)
        assert done.returncode == 0, done.stderr
        with np.load(tmp_path / "y.npz") as results:
            np.testing.assert_array_equal(results["result"], expected(image(rows)))
    done = command(site, "run", place, "--shape", "image:7,4", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outputs"]["result"]["shape"] == [7, 4]
    done = command(site, "info", place)
    assert done.returncode == 0, done.stderr
    assert "1..9x4" in done.stdout


def test_what_needs_more_says_what(site: Path) -> None:
    for name in ("optimize", "stats"):
        done = command(site, name, "squeezenet")
        assert (done.returncode, done.stdout) == (1, "")
        # Models are read before TVM is asked for.
        assert "this needs the Python package 'onnx" in done.stderr
        assert done.stderr.count("\n") == 1


@T.prim_func
def with_a_function_by_name(
    x: T.Buffer((2, 50), "float32"), y: T.Buffer((2, 50), "float32"), begin: T.int32, end: T.int32
):
    T.func_attr({"global_symbol": "curve", "tirx.noalias": True})
    for i in T.serial(end - begin):
        T.evaluate(T.call_packed("runtime.NumThreads"))
        for j in T.serial(50):
            y[begin + i, j] = x[begin + i, 49 - j]


@pytest.mark.parametrize("kernel", [with_a_large_temporary, with_a_function_by_name])
def test_kernels_that_need_tvms_runtime_say_so(site: Path, tmp_path: Path, kernel: Any) -> None:
    library = tmp_path / "k.so"
    module = tvm.IRModule({"curve": kernel})
    tvm.compile(module, target=tvm.target.Target(TARGET)).export_library(str(library))
    kind = BufferType((2, 50))
    executable = Executable(
        program=Program(
            lanes=((Launch(0, (0, 1), 0, 2, 0),),),
            kernels=("curve",),
            buffers=(Buffer("x", kind, Role.INPUT), Buffer("y", kind, Role.OUTPUT)),
            units=("only",),
            uses=(KernelUse(2, 2, (1,)),),
        ),
        plan=MemoryPlan(0, {}),
        kernels=library,
        constants={},
        inputs=(Port("image", "x", (2, 50), "float32"),),
        outputs=(Port("result", "y", (2, 50), "float32"),),
        schedule={},
        target="llvm -mcpu=x86-64-v2",
        features=required_features(TARGET),
        fingerprint="0",
    )
    executable.save(tmp_path / "model")
    done = command(site, "run", tmp_path / "model")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"with apache-tvm {metadata.version('apache-tvm')} and here is none" in done.stderr
    # By the loader of C++, which knows of no Python packages.
    by_cpp = "from runtime_ext.execution.runtime_module import load_module as m; m(sys.argv[1])"
    assert "its kernels need libtvm_runtime.so" in python(site, by_cpp, tmp_path / "model").stderr
    changed = {"apache-tvm": "0.99.1", "apache-tvm-ffi": metadata.version("apache-tvm-ffi")}
    change(tmp_path / "model", "meta.json", lambda m: m.update(versions=changed))
    with refused(ExecutableError, "made with apache-tvm 0.99.1"):
        load(tmp_path / "model")
    image = np.arange(100, dtype="float32").reshape(2, 50)
    session = executable.session()
    session.run(image=image)
    np.testing.assert_array_equal(session.get_output(), image[:, ::-1])
