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

from tests.cuda.stand_in.build import build_stand_in

HERE = Path(__file__).parent


def run_checks(folder: Path, checks: Path) -> None:
    paths = [str(folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    options = ["-q", "-p", "no:cacheprovider", "-o", "python_files=check_*.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(checks)],
        env={**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(paths)},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=600,
    )
    print(done.stdout[-4000:])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None, reason="needs cuda-bindings: pip install .[cuda]"
)
def test_on_the_stand_in(tmp_path: Path) -> None:
    build_stand_in(tmp_path)
    run_checks(tmp_path, HERE / "on_stand_in")


@pytest.mark.slow
def test_on_one_without_what_only_profiles_need(tmp_path: Path) -> None:
    build_stand_in(tmp_path, "-DOLDER_DRIVER")
    run_checks(tmp_path, HERE / "on_stand_in" / "older_driver.py")
