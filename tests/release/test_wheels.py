"""The wheels, built as `make wheels` does and installed into environments with nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from release.wheels import build_distributions
from tests.deployment.rows_model import add_range, expected, image, range_executable
from tests.docs.pages import ROOT, python_of
from tests.execution.chain_executable import chain_executable
from tests.execution.small_executable import IMAGE
from tvm_ios.files.array_files import write_arrays

pytestmark = pytest.mark.slow
NAMES = ("tvm_ios", "tvm_ios_runtime")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each wheel by the name of its distribution."""
    paths = build_distributions(tmp_path_factory.mktemp("dist"))
    assert [path.suffix for path in paths] == [".gz", ".gz", ".whl", ".whl"]
    return {path.name.partition("-")[0]: path for path in paths if path.suffix == ".whl"}


class Environment:
    """A virtual environment of this Python, and no compiler in ``PATH``."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        self.programs = folder / "bin"

    def install(self, *requirements: object) -> None:
        self("pip", "install", "--quiet", *requirements)

    def __call__(self, *command: object) -> str:
        """The standard output of a program that must succeed."""
        hidden = {"PYTHONPATH", "CXX", "CC", "TVM_IOS_NATIVE_LIB"}
        environment = {name: text for name, text in os.environ.items() if name not in hidden}
        done = subprocess.run(
            [str(self.programs / str(command[0])), *map(str, command[1:])],
            env=environment | {"PATH": str(self.programs)},
            cwd=self.programs,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def doctor(self) -> dict[str, dict[str, Any]]:
        document = json.loads(self("tvm-ios", "doctor", "--json"))
        return {check["name"]: check for check in document["checks"]}


@pytest.fixture(scope="module")
def runtime(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("runtime"))
    environment.install(wheels["tvm_ios_runtime"])
    return environment


@pytest.mark.parametrize("name", NAMES)
def test_a_wheel_fits_every_python_and_holds_no_more_than_it_should(
    name: str, wheels: dict[str, Path]
) -> None:
    wheel = wheels[name]
    assert re.search(r"-py3-none-manylinux_2_\d+_x86_64\.whl$", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
        (path,) = (file for file in files if file.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(path).decode())
    assert "runtime_ext/libtvm_ios_native.so" in files
    # Of tvm-ffi there must be one copy in a process: its own.
    libraries = ["runtime_ext/libtvm_ios_native.so", "tvm_ios/solvers/libtvm_ios_placing.so"]
    assert sorted(file for file in files if ".so" in file) == libraries
    tops = {file.partition("/")[0] for file in files}
    assert {top for top in tops if ".dist-info" not in top} == {
        *("tvm_ios", "runtime_ext", "relay_passes")
    }
    assert not any(file.startswith("runtime_ext/native/") for file in files)
    assert metadata["Name"].replace("-", "_") == name
    requirements = " ".join(metadata.get_all("Requires-Dist") or ())
    assert bool(re.search("apache-tvm[<>=]", requirements)) == (name == "tvm_ios")


def test_the_runtime_runs_and_explains_without_tvm(runtime: Environment, tmp_path: Path) -> None:
    executable = chain_executable(tmp_path)
    executable.save(tmp_path / "out")
    session = executable.session()
    session.run(image=IMAGE)
    write_arrays(tmp_path / "x.npz", {"image": IMAGE})
    saved = tmp_path / "out"
    told = runtime(
        "tvm-ios", "run", saved, "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz"
    )
    assert "latency of 10 runs" in told
    with np.load(tmp_path / "y.npz") as results:
        for name in ("last", "first"):
            np.testing.assert_array_equal(results[name], session.get_output(name))
    assert json.loads(runtime("tvm-ios", "explain", saved, "--json"))["lanes"] == 2
    script = "from importlib.util import find_spec as find; print(find('tvm'), find('onnx'))"
    assert runtime("python", "-c", script) == "None None\n"


def test_the_runtime_serves_a_range_of_shapes(runtime: Environment, tmp_path: Path) -> None:
    add_range(tmp_path / "app", 1, 9)
    range_executable(tmp_path, 1, 9).save(tmp_path / "out")
    for place in ("app", "out"):
        for rows in (1, 9, 4):
            write_arrays(tmp_path / "x.npz", {"image": image(rows)})
            given = ("--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
            runtime("tvm-ios", "run", tmp_path / place, *given)
            with np.load(tmp_path / "y.npz") as results:
                np.testing.assert_array_equal(results["result"], expected(image(rows)))


def test_memory_is_planned_without_tvm(
    wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("planner")
    planner = Environment(folder)
    planner.install(f"{wheels['tvm_ios_runtime']}[memory]")
    assert (
        planner("python", "-c", "import importlib.util as u; print(u.find_spec('tvm'))") == "None\n"
    )
    saved = folder / "reordered.onnx"
    told = json.loads(planner("tvm-ios", "memory", "nasnet_cell", "-o", saved, "--json"))
    assert told["best"] == "optimal"
    buffers = folder / "buffers.csv"
    banks = ("--bank", "sram=64K:1", "--bank", "dram=:10")
    planner("tvm-ios", "memory", saved, "-o", buffers)
    placed = json.loads(planner("tvm-ios", "memory", buffers, *banks, "--json"))
    assert placed["cost"] >= placed["cost_bound"] > 0


def test_the_doctor_knows_what_the_runtime_is_for(runtime: Environment) -> None:
    checks = runtime.doctor()
    assert "runs, times and explains" in checks["tvm-ios-runtime"]["detail"]
    assert checks["program"]["status"] == "ok"
    assert checks.keys().isdisjoint({"tvm", "kernel", "compiler", "tvm-ios"})


def test_doors_open_in_a_fresh_environment(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(f"tvm-ios[torch,linker] @ {wheels['tvm_ios'].as_uri()}")
    page = python_of(ROOT / "docs/doors.md")
    assert "tvm_ios  " in environment("python", "-c", page)
    door = "import tvm; print(tvm.relax.get_pipeline('tvm_ios'))"
    assert "tvm_ios" in environment("python", "-c", door)


def test_executables_are_made_without_a_compiler(wheels: dict[str, Path], tmp_path: Path) -> None:
    environment = Environment(tmp_path / "environment")
    environment.install(wheels["tvm_ios"])
    checks = environment.doctor()
    assert checks["compiler"]["status"] == checks["kernel"]["status"] == "warning"
    environment.install(f"tvm-ios[linker] @ {wheels['tvm_ios'].as_uri()}")
    checks = environment.doctor()
    assert "ziglang" in checks["compiler"]["detail"]
    assert checks["kernel"]["status"] == "ok"
    # A page is made of files that lie beside the code.
    chain_executable(tmp_path).save(tmp_path / "out")
    environment("tvm-ios", "report", tmp_path / "out", "-o", tmp_path / "page.html")
    assert "<h1>tvm-ios" in (tmp_path / "page.html").read_text()
    # What is guarded by the architecture must have another way: compiled for another one.
    native = Path(__file__).parents[2] / "runtime_ext/native"
    headers = environment("python", "-m", "tvm_ffi.config", "--includedir").strip()
    command = ["python", "-m", "ziglang", "c++", "-target", "aarch64-linux-gnu", "-std=c++17"]
    for source in sorted(native.glob("*.cc")):
        environment(*command, f"-isystem{headers}", "-fsyntax-only", source)
