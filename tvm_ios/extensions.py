"""What other packages add, by Python's entry points: policies, cost models, devices.

A package names them in its ``pyproject.toml``::

    [project.entry-points."tvm_ios.policies"]
    longest-path = "my_package.longest_path:POLICY"
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from tvm_ios.errors import UserError


class ExtensionError(UserError):
    """What another package adds and cannot be used, with one sentence that names the package."""


@cache
def extensions(group: str) -> Mapping[str, Any]:
    """The entry points of a group by their names; of equal names the first."""
    # Not above: it takes longer to import than most commands need for their help.
    metadata = importlib.import_module("importlib.metadata")
    entries: dict[str, Any] = {}
    for entry in metadata.entry_points(group=group):
        entries.setdefault(entry.name, entry)
    return entries


def load_extension(group: str, name: str, *kinds: type) -> Any:
    """What an entry point names.

    Parameters
    ----------
    group, name
        The group and the name of the entry point, which exists.
    kinds
        What it has to be one of.

    Raises
    ------
    ExtensionError
        If it cannot be imported, or is something else.
    """
    entry = extensions(group)[name]
    package = entry.dist.name if entry.dist is not None else "another package"
    try:
        value = entry.load()
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ExtensionError(
            f"the package {package} adds {name!r} to {group}, and loading {entry.value} failed "
            f"({reason}): mend or remove the package"
        ) from error
    if isinstance(value, type) or not isinstance(value, kinds):
        kinds_text = " or ".join(kind.__name__ for kind in kinds)
        raise ExtensionError(
            f"the package {package} adds {name!r} to {group}, and {entry.value} is no "
            f"{kinds_text}: mend or remove the package"
        )
    return value
