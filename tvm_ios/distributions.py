"""The installed distributions: all of tvm-ios, or the runtime, which only runs executables."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata

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


def only_runs() -> bool:
    """Return whether only the runtime is installed, which runs executables and makes none."""
    return list(installed_versions()) == [RUNTIME]
