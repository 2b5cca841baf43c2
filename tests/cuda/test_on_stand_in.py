"""Runs the checks of ``on_stand_in/`` in a process whose libcuda.so.1 is the stand-in.

By hand: ``LD_LIBRARY_PATH=FOLDER python -m pytest -o python_files='check_*.py'
tests/cuda/on_stand_in``, with the folder that :func:`build_stand_in` has filled.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cpp_compiler import compiler

HERE = Path(__file__).parent


def build_stand_in(folder: Path) -> None:
    """Compile the stand-in driver, kernels for it and the stand-in of cuDNN into a folder."""
    source = HERE / "stand_in"
    shared = [compiler(), "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    driver = ["-std=c++17", *map(str, sorted(source.glob("*.cc"))), "-Wl,-soname,libcuda.so.1"]
    kernels = ["-x", "c", str(source / "kernels.c")]
    cudnn = ["-std=c++17", str(source / "cudnn" / "cudnn.cc"), f"-L{folder}", "-l:libcuda.so.1"]
    cudnn += ["-Wl,-soname,libcudnn.so.9"]
    made = ((driver, "libcuda.so.1"), (kernels, "kernels.so"), (cudnn, "libcudnn.so.9"))
    for what, name in made:
        command = [*shared, *what, "-ldl", "-o", str(folder / name)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None, reason="needs cuda-bindings: pip install .[cuda]"
)
def test_on_the_stand_in(tmp_path: Path) -> None:
    build_stand_in(tmp_path)
    paths = [str(tmp_path), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    options = ["-q", "-p", "no:cacheprovider", "-o", "python_files=check_*.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(HERE / "on_stand_in")],
        env={**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(paths)},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=600,
    )
    print(done.stdout[-4000:])
    assert done.returncode == 0, done.stdout + done.stderr
