"""Check the C++ compiler that links kernels."""

from __future__ import annotations

import ctypes
import tempfile
from collections.abc import Iterator
from pathlib import Path

from runtime_ext.cpu.linker import INSTALL, find_linker, link
from runtime_ext.doctor.check import Check, Status
from tvm_ios.distributions import only_runs
from tvm_ios.errors import UserError

_SOURCE = "int answer(void) { return 42; }\n"


def check_compiler() -> Iterator[Check]:
    """Check that a compiler is found, and makes a shared library that can be loaded.

    Without one, executables run but cannot be made. An installation that only runs is not checked.
    """
    if only_runs():
        return
    try:
        command = find_linker()
    except UserError as error:
        detail, _, remedy = str(error).partition(": ")
        yield Check("compiler", Status.PROBLEM, detail, remedy)
        return
    if command is None:
        detail = "none: executables run, but nothing links kernels for optimize, tune and bench"
        yield Check("compiler", Status.WARNING, detail, INSTALL)
        return
    name = " ".join(command)
    with tempfile.TemporaryDirectory(prefix="tvm-ios-") as folder:
        source, library = Path(folder) / "answer.c", Path(folder) / "answer.so"
        source.write_text(_SOURCE)
        try:
            link(library, [source], ["-xc"])
            answer = ctypes.CDLL(str(library)).answer()
        except (UserError, OSError, AttributeError) as error:
            detail = f"{name} makes no shared library that loads: {error}"
            yield Check("compiler", Status.PROBLEM, detail, INSTALL)
            return
    if answer != 42:
        yield Check("compiler", Status.PROBLEM, f"{name} compiles wrongly", INSTALL)
    else:
        yield Check("compiler", Status.OK, name)
