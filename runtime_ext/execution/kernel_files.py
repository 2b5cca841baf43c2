"""Files of an executable's kernels: one, or several that together have them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from runtime_ext.cuda.machine_code.launchable import LaunchedWork, read_kernels
from runtime_ext.execution.package import VERSION_OF_PARTS
from runtime_ext.native_errors import ExecutableError
from runtime_ext.native_library import load_native_library

#: The package whose runtime some kernels call; those of Relay are made without it.
TVM = "apache-tvm"
#: Packages whose interface the kernels are compiled for; those of Relay need only the last one.
PACKAGES = (TVM, "apache-tvm-ffi")
#: The files, and which of a program's kernels each has.
Libraries = Mapping[Path, Sequence[str]]


def kernel_file(arch: str | None, place: int = 0) -> str:
    """The name of an executable's file of kernels: of the only one or the first, or of another.

    Parameters
    ----------
    arch
        The CUDA architecture; None for a CPU.
    place
        Which of several.
    """
    suffix = ".so" if arch is None else ".safetensors"
    return f"kernels-{place}{suffix}" if place else f"kernels{suffix}"


def kernels_of(folder: Path, meta: Mapping[str, Any]) -> Path | Libraries:
    """The kernels of an executable, by what its ``meta.json`` says."""
    if "libraries" not in meta:
        return folder / kernel_file(meta.get("arch"))
    return {folder / name: tuple(map(str, s)) for name, s in meta["libraries"].items()}


def packed(libraries: Libraries, arch: str | None) -> tuple[dict[str, Path], dict[str, Any]]:
    """Files of kernels by their names in an executable, and what its ``meta.json`` says of them."""
    files = {kernel_file(arch, place): file for place, file in enumerate(libraries)}
    if len(files) == 1:
        return files, {}
    symbols = {name: list(libraries[file]) for name, file in files.items()}
    return files, {"version": VERSION_OF_PARTS, "libraries": symbols}


def call_tvm(arch: str | None, packages: Collection[str], kernels: Path | Libraries) -> bool:
    """Whether kernels, made with some packages for a CPU or a GPU, call TVM's runtime."""
    if arch is not None or TVM not in packages:
        return False
    ask = load_native_library()["kernels_call_tvm"]
    files = [kernels] if isinstance(kernels, Path) else kernels
    return any(ask(os.fspath(file)) for file in files)


def load_functions(libraries: Libraries) -> dict[str, Any]:
    """The kernels for a CPU by symbol, as a session takes them."""
    load, functions = load_native_library()["load_kernels"], dict[str, Any]()
    for file, symbols in libraries.items():
        functions.update(zip(symbols, load(os.fspath(file), list(symbols)), strict=True))
    return functions


def read_launched(
    libraries: Libraries, arch: str | None = None
) -> tuple[str, dict[str, LaunchedWork]]:
    """Read the kernels for a GPU: their architecture, and by symbol as a session takes them.

    Parameters
    ----------
    libraries
        At least one.
    arch
        The architecture that all must be of; by default that of the first file.

    Raises
    ------
    UserError
        If a file is damaged, or of something else.
    """
    launched: dict[str, LaunchedWork] = {}
    for file, symbols in libraries.items():
        file_arch, kernels = read_kernels(file)
        arch = arch or file_arch
        if file_arch != arch or not kernels.keys() >= set(symbols):
            raise ExecutableError(f"{file} is not of this program; save it again")
        launched |= {symbol: kernels[symbol] for symbol in symbols}
    assert arch is not None, "there is a file"
    return arch, launched
