"""The loader of deployments under the sanitizers of addresses and of undefined behaviour."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.cpp_compiler import NATIVE, cannot_link, compile_cpp
from tests.deployment.rows_model import add_range, add_rows, expected
from tests.fuzz.deployments import write_registry
from tests.fuzz.mutators import damage_json

EXAMPLE = Path(__file__).parents[2] / "examples" / "cpp" / "deployment.cc"
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g1")
#: What the example does not reach.
PYTHON_ONLY = {"compiler_log.cc", "exports.cc", "peak.cc", "sampling.cc", "trial.cc"}
#: What a sanitizer ends a process with; the example ends with 0 or 1.
FOUND = 23


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sanitized")
    reason = cannot_link(folder, *SANITIZED)
    if reason is not None:
        pytest.skip(f"no sanitizers: {reason}")
    native = (file for file in sorted(NATIVE.glob("*.cc")) if file.name not in PYTHON_ONLY)
    sources = [EXAMPLE, *native]
    compile_cpp(folder / "test", sources, *SANITIZED, f"-I{EXAMPLE.parent}", "-ldl")
    return folder / "test"


def run(binary: Path, app: Path, *arguments: object) -> int:
    options = f"exitcode={FOUND}:halt_on_error=1"
    done = subprocess.run(
        [str(binary), *map(str, arguments), str(app), "image:1x4", "image:3x4", "image:7x4"],
        capture_output=True,
        text=True,
        timeout=300,
        # tvm-ffi keeps its tables of functions and types until the process ends.
        env=os.environ | {"ASAN_OPTIONS": f"{options}:detect_leaks=0", "UBSAN_OPTIONS": options},
    )
    assert done.returncode in (0, 1), done.stderr
    return done.returncode


@pytest.mark.slow
@pytest.mark.parametrize("ranges", [False, True])
def test_damaged_registries_are_read_within_bounds(
    binary: Path, tmp_path: Path, ranges: bool
) -> None:
    app = tmp_path / "app"
    for rows in (1, 4, 7):
        if ranges and rows != 4:
            add_range(app, 1, rows + 1, lanes=2)
        else:
            add_rows(app, rows, lanes=1 + rows % 2)
    reserve = ["--reserve"] if ranges else []
    assert run(binary, app, "-o", tmp_path, *reserve) == 0
    for number, rows in enumerate((1, 3, 7)):
        image, result = (
            np.fromfile(tmp_path / f"{number}.{name}.raw", "float32").reshape(rows, 4)
            for name in ("image", "result")
        )
        np.testing.assert_array_equal(result, expected(image))
    registry = json.loads((app / "deployment.json").read_text())
    random = np.random.default_rng(0)
    codes = set[int]()
    for number in range(150):
        damaged = tmp_path / str(number)
        shutil.copytree(app, damaged)
        write_registry(damaged / "deployment.json", damage_json(registry, random))
        codes.add(run(binary, damaged, *reserve))
        shutil.rmtree(damaged)
    assert codes == {0, 1}
