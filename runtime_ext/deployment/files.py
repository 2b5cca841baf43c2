"""The layout of a deployment's folder, and the files that its entries share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from runtime_ext.execution.packages.package import META, sealed_sums
from tvm_ios.deployment.registry import REGISTRY
from tvm_ios.files.digest import file_digest
from tvm_ios.files.json_text import json_object

ENTRIES, WEIGHTS, KERNELS = "entries", "weights", "kernels"
#: The file by which TVM's runtime loads the folder as a module.
MODULE_FILE = "model.tvm_ios"
#: The file that a writer locks.
LOCK = ".lock"
#: The prefix of the names of folders in which new files are made.
NEW = ".new."
#: The deployment's folder, relative to an entry's own folder.
UP = "../.."

_SHARED_FILE = re.compile(r"[0-9a-f]{64}\.(so|safetensors)")


def entry_folder(folder: Path, entry: str) -> Path:
    """Return the folder of an entry's own files."""
    return folder / ENTRIES / entry


def shared_files(folder: Path, entry: str) -> dict[str, str]:
    """Return the checksums of the shared files of an entry, by path relative to the deployment.

    Raise OSError if the entry is incomplete.
    """
    sums = sealed_sums(entry_folder(folder, entry))
    prefix = f"{UP}/"
    return {
        name.removeprefix(prefix): checksum
        for name, checksum in sums.items()
        if name.startswith(prefix)
    }


def shared_libraries(folder: Path, entry: str) -> dict[str, frozenset[str]]:
    """Return the symbols that an entry takes from each library, by path relative to the deployment.

    Empty if the symbols do not say what the kernels compute, so that no other entry may use them.
    """
    try:
        meta = json_object((entry_folder(folder, entry) / META).read_bytes())
        if "apache-tvm" not in meta["versions"]:
            return {}
        return {
            name.removeprefix(f"{UP}/"): frozenset(symbols)
            for name, symbols in meta["libraries"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def is_whole(file: Path) -> bool:
    """Return whether a shared file of kernels exists and has the digest that its name states."""
    return file.is_file() and file_digest(file) == file.stem


def strangers(folder: Path) -> Iterator[Path]:
    """Return the files in a folder that do not belong to a deployment."""
    ours = {ENTRIES, WEIGHTS, KERNELS, MODULE_FILE, LOCK, REGISTRY}
    return (f for f in folder.iterdir() if f.name not in ours and not f.name.startswith("."))


def files_of_nobody(folder: Path, entries: set[str]) -> Iterator[Path]:
    """Yield the folders of entries and the shared files that no entry of the registry needs.

    Yield no shared file if the files of an entry cannot be read.
    """
    for path in _in(folder / ENTRIES):
        if path.name not in entries:
            yield path
    try:
        needed = {name for entry in entries for name in shared_files(folder, entry)}
    except OSError:
        return
    for room in (WEIGHTS, KERNELS):
        for path in _in(folder / room):
            if f"{room}/{path.name}" not in needed and _SHARED_FILE.fullmatch(path.name):
                yield path


def _in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []
