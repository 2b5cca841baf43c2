"""The executor under the thread sanitizer, in a process without Python."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cpp_compiler import EXECUTOR, cannot_link, compile_cpp

HERE = Path(__file__).parent
SANITIZED = ("-fsanitize=thread", "-O1", "-g")


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sanitized")
    reason = cannot_link(folder, *SANITIZED)
    if reason is not None:
        pytest.skip(f"no thread sanitizer: {reason}")
    # The headers of tvm-ffi count references with fences, which the sanitizer does not follow.
    compile_cpp(
        folder / "test", [HERE / "test_executor.cc", *EXECUTOR], *SANITIZED, "-Wall", "-Wno-tsan"
    )
    return folder / "test"


@pytest.mark.slow
def test_lanes_stand_in_for_each_other(tmp_path: Path) -> None:
    """The same without a sanitizer: it compiles in seconds."""
    compile_cpp(tmp_path / "test", [HERE / "test_executor.cc", *EXECUTOR], "-O1", "-Wall")
    done = subprocess.run([str(tmp_path / "test")], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "all is well\n"), done.stderr


# Compiling takes most of it; fast tests run the executor itself.
@pytest.mark.slow
@pytest.mark.parametrize("scale", [1, 10])
def test_no_race_is_found(binary: Path, scale: int) -> None:
    done = subprocess.run(
        [str(binary), str(scale)],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"TSAN_OPTIONS": "halt_on_error=1"},
    )
    assert (done.returncode, done.stdout) == (0, "all is well\n"), done.stderr
