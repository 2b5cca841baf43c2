"""Compiles the stand-in driver."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cpp_compiler import compiler

SOURCE = Path(__file__).parent


def build_stand_in(folder: Path, *flags: str) -> None:
    """Compile the stand-in driver, kernels for it and the stand-in of cuDNN into a folder."""
    shared = [compiler(), "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    driver = [
        "-std=c++17",
        *map(str, sorted(SOURCE.glob("*.cc"))),
        "-Wl,-soname,libcuda.so.1",
        *flags,
    ]
    kernels = ["-x", "c", str(SOURCE / "kernels.c")]
    cudnn = ["-std=c++17", str(SOURCE / "cudnn" / "cudnn.cc"), f"-L{folder}", "-l:libcuda.so.1"]
    cudnn += ["-Wl,-soname,libcudnn.so.9"]
    libraries = ((driver, "libcuda.so.1"), (kernels, "kernels.so"), (cudnn, "libcudnn.so.9"))
    for what, name in libraries:
        command = [*shared, *what, "-ldl", "-o", str(folder / name)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
