"""Policies, cost models and devices that other packages add by Python's entry points.

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
    """An extension that cannot be used, with one sentence that names the package it comes from."""


@cache
def extensions(group: str) -> Mapping[str, Any]:
    """Return the entry points of a group by their names; of several with one name, the first."""
    # Not at the top: the import takes longer than most commands need for their help.
    metadata = importlib.import_module("importlib.metadata")
    entries: dict[str, Any] = {}
    for entry in metadata.entry_points(group=group):
        entries.setdefault(entry.name, entry)
    return entries


def load_extension(group: str, name: str, *kinds: type) -> Any:
    """Load the object that an existing entry point names and require that it is one of some kinds.

    Raise ExtensionError if it cannot be imported, or is of another kind.
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
