"""Compile CUDA C++ to the machine code of an architecture: by NVRTC, or else nvcc; needs no GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder

#: With exact division, roots and exponentials, so that results do not depend on the compiler.
_OPTIONS = ("-std=c++17", "--fmad=true")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_STACK = re.compile(r"(\d+) bytes stack frame")


@dataclass(frozen=True)
class Cubin:
    """Machine code, and what a thread and a block of it need.

    Attributes
    ----------
    code
        An ELF file of kernels.
    registers
        Registers of a thread.
    local_bytes
        Memory of a thread: spills and arrays.
    static_shared_bytes
        Shared memory of a block that the code declares.
    """

    code: bytes
    registers: int
    local_bytes: int
    static_shared_bytes: int


def compile_cubin(source: str, arch: str) -> Cubin:
    """Compile a source of one kernel.

    Parameters
    ----------
    source
        CUDA C++ that includes nothing.
    arch
        The architecture, such as ``"sm_90"``.

    Raises
    ------
    UserError
        If there is no compiler, or the compiler does not know the architecture or the code.
    """
    if _nvrtc() is not None:
        code, log = _by_nvrtc(source, arch)
    elif nvcc := find_nvcc():
        code, log = _by_nvcc(nvcc, source, arch)
    else:
        raise UserError(
            "there is no CUDA compiler: install the extra tvm-ios[cuda], which has NVRTC, or nvcc"
        )
    matches = (_USED.search(log), _STACK.search(log), _SHARED.search(log))
    registers, local, shared = (int(m.group(1)) if m else 0 for m in matches)
    return Cubin(code, registers, local, shared)


def has_compiler() -> bool:
    """Whether anything can be compiled here."""
    return _nvrtc() is not None or find_nvcc() is not None


def compiler_version() -> str:
    """The compiler and its version, which the keys of caches contain."""
    nvrtc = _nvrtc()
    if nvrtc is not None:
        _, major, minor = nvrtc.nvrtcVersion()
        return f"nvrtc {major}.{minor}"
    return f"nvcc {find_nvcc()}"


@cache
def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError):
        # The bindings without the library, or a library that does not load.
        return None
    return nvrtc


def find_nvcc() -> str | None:
    """The path of CUDA's compiler, on ``PATH`` or in the toolkit; None where there is none."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which("nvcc") or shutil.which("nvcc", path=str(Path(home) / "bin"))


def _by_nvrtc(source: str, arch: str) -> tuple[bytes, str]:
    nvrtc = _nvrtc()

    def call(function: Any, *arguments: Any) -> Any:
        error, *values = function(*arguments)
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise UserError(f"NVRTC: {nvrtc.nvrtcGetErrorString(error)[1].decode()}")
        return values[0] if values else None

    program = call(nvrtc.nvrtcCreateProgram, source.encode(), b"kernel.cu", 0, [], [])
    try:
        options = [f"-arch={arch}", *_OPTIONS, "--ptxas-options=-v"]
        (error,) = nvrtc.nvrtcCompileProgram(
            program, len(options), [option.encode() for option in options]
        )
        log = b" " * call(nvrtc.nvrtcGetProgramLogSize, program)
        call(nvrtc.nvrtcGetProgramLog, program, log)
        message = log.rstrip(b"\0 ").decode(errors="replace")
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise UserError(f"NVRTC does not compile for {arch}: {_complaint(message)}")
        code = b" " * call(nvrtc.nvrtcGetCUBINSize, program)
        call(nvrtc.nvrtcGetCUBIN, program, code)
        return code, message
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _by_nvcc(nvcc: str, source: str, arch: str) -> tuple[bytes, str]:
    with temporary_folder() as folder:
        source_file, cubin_file = folder / "kernel.cu", folder / "kernel.cubin"
        source_file.write_text(source)
        command = [nvcc, "-cubin", f"-arch={arch}", *_OPTIONS, "-Xptxas", "-v"]
        process = subprocess.run(
            [*command, "-o", cubin_file, source_file],
            capture_output=True,
            text=True,
            check=False,
        )
        if process.returncode:
            raise UserError(f"{nvcc} does not compile for {arch}: {_complaint(process.stderr)}")
        return cubin_file.read_bytes(), process.stderr


def _complaint(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[0] if lines else "?")
