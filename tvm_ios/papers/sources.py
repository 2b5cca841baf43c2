"""What a computed value depends on: the code that was loaded, the data, versions, the machine."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from runtime_ext.machine.this_machine import available_lanes, device_name
from tvm_ios.sweep.content import versions

_PACKAGES = ("tvm_ios", "runtime_ext", "relay_passes")
#: Whose versions results depend on, besides our own and TVM's.
_LIBRARIES = ("networkx", "numpy", "onnx", "onnxruntime", "ortools")
#: When this process began to load modules, or shortly after.
_BEGUN = time.time()


def loaded_sources() -> dict[str, str] | None:
    """The digest of each module of ours that this process has loaded, by the module's name.

    It is at least what a computation of this process has used. None if a file was changed since,
    so that nobody knows which code was loaded.
    """
    names = [name for name in sys.modules if name.partition(".")[0] in _PACKAGES]
    files = {name: file for name in sorted(names) if (file := _file_of(name))}
    if any(file.stat().st_mtime > _BEGUN for file in files.values()):
        return None
    return {name: _digest(file) for name, file in files.items()}


def are_unchanged(sources: Mapping[str, str]) -> bool:
    """Whether all of these modules are still what they were."""
    return all(
        (file := _file_of(name)) is not None and _digest(file) == digest
        for name, digest in sources.items()
    )


@cache
def surroundings() -> Mapping[str, Any]:
    """What else results depend on: data files of the packages, versions, and the machine."""
    digest = hashlib.sha256()
    for path in sorted(_data_files()):
        digest.update(path.name.encode() + path.read_bytes())
    return {
        "data": digest.hexdigest(),
        "versions": versions(*_LIBRARIES),
        "machine": device_name(available_lanes()),
    }


def _data_files() -> list[Path]:
    """All files that are no code, but the published values: who computes gets them as arguments."""
    roots = [_folder(package) for package in ("tvm_ios", "runtime_ext")]
    return [
        path
        for root in roots
        for path in root.rglob("*")
        if path.suffix in (".json", ".toml", ".so") and path.parent.name != "texts"
    ]


def _file_of(module: str) -> Path | None:
    """The file of a module; None without one."""
    package, *rest = module.split(".")
    path = _folder(package).joinpath(*rest)
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), None)


@cache
def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _folder(package: str) -> Path:
    file = import_module(package).__file__
    assert file is not None
    return Path(file).parent
