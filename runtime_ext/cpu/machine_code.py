"""From TVM's compiled modules to object code and shared libraries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tvm.support import cc

from tvm_ios.errors import UserError


def object_code(library: Any) -> bytes:
    """The object file of a ``tvm.runtime.Module``."""
    # In memory: LLVM ends the whole process when a file cannot be written.
    with open(os.memfd_create("kernel.o"), "rb") as file:
        library.write_to_file(f"/proc/self/fd/{file.fileno()}", "o")
        return file.read()


def link(path: Path, objects: Sequence[Path]) -> None:
    """Link object files into a shared library; without any it is empty.

    Raises
    ------
    UserError
        If there is no compiler, or it fails; says why.
    """
    if cc.get_cc() is None:
        raise UserError("kernels are linked by a C++ compiler and there is none: install g++")
    try:
        cc.create_shared(str(path), [str(o) for o in objects] or ["-xc", os.devnull])
    except (RuntimeError, ValueError, OSError) as error:
        # The linker's own complaint is the second line; the first is TVM's heading.
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise UserError(
            f"the kernels cannot be linked into {path}: {lines[min(1, len(lines) - 1)]}"
        ) from error
