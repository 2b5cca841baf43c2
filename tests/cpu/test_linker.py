"""Which compiler links, and that the package ziglang stands in where there is none."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from pathlib import Path

import pytest

from runtime_ext.cpu.linker import find_linker, link
from tests.refusals import refused
from tvm_ios.errors import UserError

Patch = pytest.MonkeyPatch
SOURCE = "#include <math.h>\ndouble root(double x) { return sqrt(x) + cbrt(x); }\n"


@pytest.fixture(autouse=True)
def _no_choice(monkeypatch: Patch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)


def program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def root_by(library: Path, value: float) -> float:
    function = ctypes.CDLL(str(library)).root
    function.argtypes, function.restype = [ctypes.c_double], ctypes.c_double
    return function(value)


def test_a_library_finds_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "root.c").write_text(SOURCE)
    link(tmp_path / "root.so", [tmp_path / "root.c"], ["-xc"])
    assert root_by(tmp_path / "root.so", 64.0) == pytest.approx(12.0)


def test_nothing_makes_an_empty_library(tmp_path: Path) -> None:
    link(tmp_path / "empty.so", [])
    ctypes.CDLL(str(tmp_path / "empty.so"))


def test_the_variables_go_before_the_path(tmp_path: Path, monkeypatch: Patch) -> None:
    own, in_path = program(tmp_path / "own", ":"), program(tmp_path / "g++", ":")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_linker() == (in_path,)
    monkeypatch.setenv("CC", own)
    assert find_linker() == (own,)
    monkeypatch.setenv("CXX", "icpx-none")
    with refused(UserError, "'icpx-none'", "unset CXX"):
        find_linker()


def test_without_any_there_is_none(monkeypatch: Patch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "ziglang", None)
    assert find_linker() is None


def test_ziglang_links_where_there_is_no_compiler(tmp_path: Path, monkeypatch: Patch) -> None:
    compiler = shutil.which("g++")
    package = tmp_path / "packages/ziglang"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    # Takes what zig does and leaves the linking to this machine's compiler.
    (package / "__main__.py").write_text(
        "import subprocess, sys\n"
        "assert sys.argv[1] == 'cc', sys.argv\n"
        f"sys.exit(subprocess.call([{compiler!r}, *sys.argv[2:]], "
        f"env={{'PATH': {os.environ['PATH']!r}}}))\n"
    )
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delitem(sys.modules, "ziglang", raising=False)
    assert (find_linker() or ())[:4] == (sys.executable, "-m", "ziglang", "cc")
    (tmp_path / "root.c").write_text(SOURCE)
    link(tmp_path / "root.so", [tmp_path / "root.c"], ["-xc"])
    assert root_by(tmp_path / "root.so", 64.0) == pytest.approx(12.0)


@pytest.mark.parametrize(
    ("does", "words"),
    [("echo no room >&2; exit 1", "no room"), ("exit 3", "exit code 3"), (None, "Exec format")],
)
def test_a_linker_that_fails_is_quoted(
    does: str | None, words: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    path = Path(program(tmp_path / "ld", does or ""))
    if does is None:
        path.write_text("no program")
    monkeypatch.setenv("CXX", str(path))
    with refused(UserError, "kernels.so", words):
        link(tmp_path / "kernels.so", [])
