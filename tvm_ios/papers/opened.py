"""Which files a process has opened: all from the import of this module on."""

from __future__ import annotations

import os
import sys
from typing import Any

_opened: set[str] = set()


def opened_files() -> frozenset[str]:
    """Paths as they were given, libraries that were loaded included."""
    return frozenset(_opened)


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "ctypes.dlopen") and isinstance(arguments[0], (str, os.PathLike)):
        _opened.add(os.fspath(arguments[0]))


sys.addaudithook(_note)
