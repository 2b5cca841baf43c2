"""The C++ compiler that links kernels."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runtime_ext.doctor.check import Check, Status

_INSTALL = "install g++ (Debian, Ubuntu: apt-get install g++)"
_SOURCE = 'extern "C" int answer() { return 42; }\n'
#: Where TVM looks, in this order, unless CXX or CC names one.
_NAMES = ("g++", "gcc", "clang++", "clang", "c++", "cc")


def check_compiler() -> Iterator[Check]:
    """Whether a compiler is found, and makes a shared library that can be loaded."""
    chosen = os.environ.get("CXX") or os.environ.get("CC")
    path = shutil.which(chosen) if chosen else next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        missing = f"{chosen!r} (of CXX or CC)" if chosen else "no C++ compiler"
        remedy = "unset CXX and CC, or name one that exists" if chosen else _INSTALL
        yield Check("compiler", Status.PROBLEM, f"{missing} is not in PATH", remedy)
        return
    with tempfile.TemporaryDirectory(prefix="tvm-ios-") as folder:
        source, library = Path(folder) / "answer.cc", Path(folder) / "answer.so"
        source.write_text(_SOURCE)
        command = [path, "-shared", "-fPIC", "-o", str(library), str(source)]
        try:
            process = subprocess.run(command, capture_output=True, text=True, timeout=60)
            if process.returncode:
                raise OSError(
                    process.stderr.strip().partition("\n")[0] or f"exit {process.returncode}"
                )
            answer = ctypes.CDLL(str(library)).answer()
        except (OSError, AttributeError, subprocess.TimeoutExpired) as error:
            detail = f"{path} makes no shared library that loads: {error}"
            yield Check("compiler", Status.PROBLEM, detail, _INSTALL)
            return
    if answer != 42:
        yield Check("compiler", Status.PROBLEM, f"{path} compiles wrongly", _INSTALL)
    else:
        yield Check("compiler", Status.OK, path)
