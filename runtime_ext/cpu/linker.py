"""Link object files into shared libraries, by a C++ compiler or by the package ziglang."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from tvm_ios.errors import UserError

INSTALL = "install g++ (Debian, Ubuntu: apt-get install g++) or run `pip install 'tvm-ios[linker]'`"
#: Compilers in the order in which TVM looks for them too, unless CXX or CC names one.
_COMPILERS = ("g++", "gcc", "clang++", "clang", "c++", "cc")
#: Without these options zig links its checks of undefined behaviour.
_ZIG = (sys.executable, "-m", "ziglang", "cc", "-O2", "-fno-sanitize=undefined")


def find_linker() -> tuple[str, ...] | None:
    """Return the command that links, without its arguments, or None if there is none.

    It is the program named by the environment variable ``CXX`` or ``CC``, or the first C++ compiler
    in ``PATH``, or else the one in the Python package ``ziglang`` (the extra ``linker``). Raise
    UserError if the variable names no program.
    """
    if chosen := os.environ.get("CXX") or os.environ.get("CC"):
        if path := shutil.which(chosen):
            return (path,)
        raise UserError(
            f"{chosen!r} (of CXX or CC) is not in PATH: unset CXX and CC, or name one that exists"
        )
    if path := next(filter(None, map(shutil.which, _COMPILERS)), None):
        return (path,)
    return _ZIG if find_spec("ziglang") is not None else None


def find_cross_linker(machine: str) -> tuple[str, ...] | None:
    """Return the linker command for a machine (by its uname): its own g++, zig, or None."""
    if path := shutil.which(f"{machine}-linux-gnu-g++"):
        return (path,)
    return (*_ZIG, "-target", f"{machine}-linux-gnu") if find_spec("ziglang") is not None else None


def require_cross_linker(machine: str) -> tuple[str, ...]:
    """Return the linker command for a machine (by its uname); raise UserError without one."""
    if command := find_cross_linker(machine):
        return command
    raise UserError(
        f"kernels for {machine} are linked by {machine}-linux-gnu-g++ or zig and there is neither: "
        f"apt-get install g++-{machine}-linux-gnu (Debian, Ubuntu) or pip install 'tvm-ios[linker]'"
    )


def link(
    path: str | os.PathLike[str],
    objects: Sequence[str | os.PathLike[str]],
    options: Sequence[str] = (),
    command: Sequence[str] | None = None,
) -> None:
    """Link object files or C sources into the shared library ``path``; without any it is empty.

    ``options`` are passed to ``command``, a compiler, by default the one for this machine. Usable
    as ``fcompile`` of TVM's ``export_library``. Raise UserError without a compiler, or if it fails.
    """
    command = command or find_linker()
    if command is None:
        raise UserError(f"kernels are linked by a C++ compiler and there is none: {INSTALL}")
    files = list(map(os.fspath, objects)) or ["-xc", os.devnull]
    arguments = ["-shared", "-fPIC", "-o", os.fspath(path), *options, *files, "-lm"]
    failure = f"the kernels cannot be linked into {os.fspath(path)}"
    try:
        process = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, errors="replace"
        )
    except OSError as error:
        raise UserError(f"{failure}: {error}") from error
    if process.returncode:
        lines = [line for line in process.stderr.splitlines() if line.strip()]
        reason = lines[0] if lines else f"{command[0]} ends with exit code {process.returncode}"
        raise UserError(f"{failure}: {reason}")
