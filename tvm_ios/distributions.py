"""The distributions that these packages come in: all of tvm-ios, or what runs executables alone."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata

COMPLETE = "tvm-ios"
#: The same files with the requirements of running alone.
RUNTIME = "tvm-ios-runtime"


def installed_versions() -> Mapping[str, str]:
    """Those of the two that are installed, :data:`COMPLETE` first, and their versions.

    There is none where the packages run from their source, and should not be both: they own the
    same files.
    """
    versions: dict[str, str] = {}
    for name in (COMPLETE, RUNTIME):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def only_runs() -> bool:
    """Whether what is installed runs executables and makes none."""
    return list(installed_versions()) == [RUNTIME]
