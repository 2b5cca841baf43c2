"""Files of an executable's kernels: one file, or several that each have some of the kernels."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from runtime_ext.cuda.machine_code.launchable import LaunchedWork, read_kernels
from runtime_ext.execution.packages.package import VERSION_OF_PARTS
from runtime_ext.native_errors import ExecutableError
from runtime_ext.native_library import load_native_library

#: The package whose runtime some kernels call; kernels of Relay are made without it.
TVM = "apache-tvm"
#: Packages whose interface kernels are compiled for; kernels of Relay need only the last.
PACKAGES = (TVM, "apache-tvm-ffi")
#: Files of kernels, and the symbols that each has.
Libraries = Mapping[Path, Sequence[str]]


def kernel_file(arch: str | None, place: int = 0) -> str:
    """Return the name of an executable's kernel file of this number; 0 is left out of the name.

    ``arch`` is the CUDA architecture; None for a CPU.
    """
    suffix = ".so" if arch is None else ".safetensors"
    return f"kernels-{place}{suffix}" if place else f"kernels{suffix}"


def kernels_of(folder: Path, meta: Mapping[str, Any]) -> Path | Libraries:
    """Return an executable's kernel file, or its files with their symbols, per ``meta.json``."""
    if "libraries" not in meta:
        return folder / kernel_file(meta.get("arch"))
    return {folder / name: tuple(map(str, s)) for name, s in meta["libraries"].items()}


def packed(libraries: Libraries, arch: str | None) -> tuple[dict[str, Path], dict[str, Any]]:
    """Return kernel files by their names in an executable, and their part of ``meta.json``."""
    files = {kernel_file(arch, place): file for place, file in enumerate(libraries)}
    if len(files) == 1:
        return files, {}
    symbols = {name: list(libraries[file]) for name, file in files.items()}
    return files, {"version": VERSION_OF_PARTS, "libraries": symbols}


def call_tvm(arch: str | None, packages: Collection[str], kernels: Path | Libraries) -> bool:
    """Return whether kernels compiled with these packages call TVM's runtime; a GPU's do not."""
    if arch is not None or TVM not in packages:
        return False
    ask = load_native_library()["kernels_call_tvm"]
    files = [kernels] if isinstance(kernels, Path) else kernels
    return any(ask(os.fspath(file)) for file in files)


def load_functions(libraries: Libraries) -> dict[str, Any]:
    """Load kernels for a CPU, and return them by symbol, as a session takes them."""
    load, functions = load_native_library()["load_kernels"], dict[str, Any]()
    for file, symbols in libraries.items():
        functions.update(zip(symbols, load(os.fspath(file), list(symbols)), strict=True))
    return functions


def read_launched(
    libraries: Libraries, arch: str | None = None
) -> tuple[str, dict[str, LaunchedWork]]:
    """Read kernels for a GPU: return their architecture, and the kernels by symbol.

    There is at least one file. All must be of ``arch``, by default that of the first. Raise
    UserError if a file is damaged or does not have its symbols.
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
