"""The installed distributions: all of tvm-ios, or the runtime, which only runs executables."""

from __future__ import annotations

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

    It lies in the package, or in the installed distribution: an editable install keeps it there.
    Raise ImportError if it was not built.
    """
    places = [Path(__file__).parents[1] / folder]
    with suppress(metadata.PackageNotFoundError):
        places.append(Path(str(metadata.distribution(COMPLETE).locate_file(folder))))
    for place in places:
        if (place / name).exists():
            return place / name
    raise ImportError(f"{name} was not built; run `pip install .`")


def only_runs() -> bool:
    """Return whether only the runtime is installed, which runs executables and makes none."""
    return list(installed_versions()) == [RUNTIME]
