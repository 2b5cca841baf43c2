"""What a computed value depends on: the code and data that were loaded, versions, the machine."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from runtime_ext.machine.this_machine import available_lanes, device_name
from tvm_ios.papers.opened import opened_files
from tvm_ios.sweep.content import versions

_PACKAGES = ("tvm_ios", "runtime_ext", "relay_passes")
#: Whose versions results depend on, besides our own and TVM's.
_LIBRARIES = ("networkx", "numpy", "onnx", "onnxruntime", "ortools")
#: The published values, which whoever computes gets as arguments.
_TEXTS = "tvm_ios/papers/texts"
#: When this process began to load modules, or shortly after.
_BEGUN = time.time()


def loaded_sources() -> dict[str, str] | None:
    """The digests of the files of our packages that this process has loaded.

    It is at least what a computation of this process has used: modules, data, libraries. None if
    one was changed since, so that nobody knows what was loaded.
    """
    files = {f"{file.relative_to(_root())}": file for file in _loaded()}
    if any(file.stat().st_mtime > _BEGUN for file in files.values()):
        return None
    return {name: _digest(files[name]) for name in sorted(files) if not name.startswith(_TEXTS)}


def are_unchanged(sources: Mapping[str, str]) -> bool:
    """Whether all of these files are still what they were."""
    files = {_root() / name: digest for name, digest in sources.items()}
    return all(file.is_file() and _digest(file) == digest for file, digest in files.items())


@cache
def surroundings() -> Mapping[str, Any]:
    """What else results depend on: versions, and the machine."""
    return {"versions": versions(*_LIBRARIES), "machine": device_name(available_lanes())}


def _loaded() -> Iterator[Path]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] in _PACKAGES and file is not None:
            yield Path(file)
    roots = tuple(f"{_root() / package}/" for package in _PACKAGES)
    for path in opened_files():
        # Those of Python are there as modules.
        if path.startswith(roots) and not path.endswith((".py", ".pyc")) and Path(path).is_file():
            yield Path(path)


@cache
def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@cache
def _root() -> Path:
    """The folder that our packages are in."""
    file = import_module("tvm_ios").__file__
    assert file is not None
    return Path(file).parents[1]
