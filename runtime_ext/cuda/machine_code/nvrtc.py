"""Compile CUDA C++ to machine code of an architecture, by NVRTC or else nvcc; needs no GPU."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from runtime_ext.cuda.machine_code.nvrtc_library import CompileError, NvrtcLibrary, nvrtc_libraries
from tvm_ios.errors import UserError
from tvm_ios.files.atomic import temporary_folder

#: Exact division, roots and exponentials, so that results do not depend on the compiler.
_OPTIONS = ("-std=c++17", "--fmad=true")
#: The compute capabilities that CUDA 12 compiles for and CUDA 13 does not.
_ONLY_BEFORE_13 = range(50, 75)
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_STACK = re.compile(r"(\d+) bytes stack frame")


@dataclass(frozen=True)
class Cubin:
    """Machine code, and the registers and memory that it needs."""

    #: An ELF file of kernels; or PTX, text that ends in a zero byte.
    code: bytes
    #: Registers of a thread.
    registers: int
    #: Local memory of a thread: spills and arrays.
    local_bytes: int
    #: Shared memory of a block that the code declares.
    static_shared_bytes: int


def compile_cubin(source: str, arch: str) -> Cubin:
    """Compile CUDA C++ of one kernel, without includes, for an architecture.

    ``"sm_90"`` gives machine code. ``"compute_90"`` gives PTX, the assembly that drivers and
    simulators take, with the register count of the machine code. Raise UserError if there is no
    compiler, or none knows the architecture or accepts the code.
    """
    libraries = nvrtc_libraries()
    knowing = [library for library in libraries if _capability(arch) in library.archs]
    nvcc = find_nvcc()
    if knowing or (libraries and nvcc is None):
        code, log = _by_nvrtc((knowing or libraries)[0], source, arch)
    elif nvcc is not None:
        code, log = _by_nvcc(nvcc, source, arch)
    else:
        raise UserError(
            "there is no CUDA compiler: install the extra tvm-ios[cuda], which has NVRTC, or nvcc"
        )
    matches = (_USED.search(log), _STACK.search(log), _SHARED.search(log))
    registers, local, shared = (int(m.group(1)) if m else 0 for m in matches)
    return Cubin(code, registers, local, shared)


def has_compiler() -> bool:
    """Return whether NVRTC or nvcc is installed."""
    return bool(nvrtc_libraries()) or find_nvcc() is not None


def compiler_version(arch: str = "") -> str:
    """Return the name and version of an architecture's compiler, as part of cache keys."""
    libraries = nvrtc_libraries()
    knowing = [library for library in libraries if not arch or _capability(arch) in library.archs]
    for library in (*knowing, *libraries):
        return f"nvrtc {library.version[0]}.{library.version[1]}"
    return f"nvcc {find_nvcc()}"


def machine_code_arch(arch: str) -> str:
    """Return the architecture of PTX's machine code: of ``"compute_90"`` it is ``"sm_90"``."""
    return arch.replace("compute_", "sm_")


def _capability(arch: str) -> int:
    """Return an architecture's compute capability, such as 90 of ``"sm_90a"``; 0 if it has none."""
    digits = re.fullmatch(r"(?:sm|compute)_(\d+)[af]?", arch)
    return int(digits[1]) if digits else 0


def find_nvcc() -> str | None:
    """Return the path of nvcc on ``PATH`` or in the toolkit, or None."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which("nvcc") or shutil.which("nvcc", path=str(Path(home) / "bin"))


def _by_nvrtc(library: NvrtcLibrary, source: str, arch: str) -> tuple[bytes, str]:
    try:
        options = (f"-arch={machine_code_arch(arch)}", *_OPTIONS, "--ptxas-options=-v")
        compiled = library.compile(source, options)
    except CompileError as error:
        raise _refused("NVRTC", arch, error.log) from error
    return compiled.ptx if _is_ptx(arch) else compiled.cubin, compiled.log


def _by_nvcc(nvcc: str, source: str, arch: str) -> tuple[bytes, str]:
    with temporary_folder() as folder:
        source_file = folder / "kernel.cu"
        source_file.write_text(source)

        def run(form: str, form_arch: str) -> tuple[bytes, str]:
            made = folder / f"kernel.{form}"
            command = [nvcc, f"-{form}", f"-arch={form_arch}", *_OPTIONS, "-Xptxas", "-v"]
            process = subprocess.run(
                [*command, "-o", made, source_file], capture_output=True, text=True, check=False
            )
            if process.returncode:
                raise _refused(nvcc, arch, process.stderr)
            return made.read_bytes(), process.stderr

        code, log = run("cubin", machine_code_arch(arch))
        # NVRTC ends PTX in a zero byte, too, and drivers need it.
        return (run("ptx", arch)[0] + b"\0", log) if _is_ptx(arch) else (code, log)


def _is_ptx(arch: str) -> bool:
    return arch.startswith("compute_")


def _refused(compiler: str, arch: str, log: str) -> UserError:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    reason = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "?")
    sentence = f"{compiler} does not compile for {arch}: {reason}"
    if _capability(arch) in _ONLY_BEFORE_13:
        sentence += "; NVRTC of CUDA 12 does: install nvidia-cuda-nvrtc-cu12 beside it"
    return UserError(sentence)
