"""C++ for tests: what is compiled against the headers that the executor is built with."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tvm_ffi.libinfo

NATIVE = Path(__file__).parents[1] / "runtime_ext" / "native"
#: The executor itself, without what Python sees of it.
EXECUTOR = [
    NATIVE / f"{name}.cc"
    for name in (
        "affinity",
        "cpu_quota",
        "executor",
        "fork_count",
        "lanes",
        "plan",
        "thread_watch",
    )
]


def compiler() -> str:
    path = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    assert path, "there is no C++ compiler, and pip could not have built the executor"
    return path


def compile_cpp(output: Path, sources: Sequence[Path], *flags: str) -> None:
    """Compile files on all CPUs, and link them."""
    library = Path(tvm_ffi.libinfo.find_libtvm_ffi())
    command = [compiler(), "-std=c++17", "-iquote", str(NATIVE), "-pthread", *flags]
    headers = [f"-isystem{folder}" for folder in tvm_ffi.libinfo.include_paths()]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = [f"{folder}/{number}.o" for number in range(len(sources))]
        compiling = [
            [*command, *headers, "-c", str(source), "-o", file]
            for source, file in zip(sources, objects, strict=True)
        ]
        list(pool.map(run, compiling))
        run([*command, *objects, str(library), f"-Wl,-rpath,{library.parent}", "-o", str(output)])


def run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def cannot_link(folder: Path, *flags: str) -> str | None:
    """Why the compiler cannot link a program with these flags, or None if it can."""
    source = folder / "empty.cc"
    source.write_text("int main() { return 0; }\n")
    command = [compiler(), *flags, str(source), "-o", str(folder / "empty")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
