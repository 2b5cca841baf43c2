"""The installed distributions: all of tvm-ios, or the runtime, which only runs executables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

COMPLETE = "tvm-ios"
#: The same files, but with only the dependencies that running executables needs.
RUNTIME = "tvm-ios-runtime"


def installed_versions() -> Mapping[str, str]:
    """Return the versions of those of the two distributions that are installed.

    :data:`COMPLETE` comes first. The result is empty where the packages run from their source. Both
    should never be installed at once: they own the same files.
    """
    versions: dict[str, str] = {}
    for name in (COMPLETE, RUNTIME):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def built_file(folder: str, name: str) -> Path:
    """Return the path of a file that is built as part of a package, by the package's folder.

    It lies in the package, or in the installed distribution: an editable install keeps it there. Or
    it lies in the installation that has the library of the variable ``TVM_IOS_NATIVE_LIB``. Raise
    ImportError if it was not built.
    """
    roots = [Path(__file__).parents[1]]
    for distribution in (COMPLETE, RUNTIME):
        with suppress(metadata.PackageNotFoundError):
            roots.append(Path(str(metadata.distribution(distribution).locate_file(""))))
    if native := os.environ.get("TVM_IOS_NATIVE_LIB"):
        roots.append(Path(native).absolute().parents[1])
    for root in roots:
        if (root / folder / name).exists():
            return root / folder / name
    raise ImportError(f"{name} was not built; run `pip install .`")


def only_runs() -> bool:
    """Return whether only the runtime is installed, which runs executables and makes none."""
    return list(installed_versions()) == [RUNTIME]
