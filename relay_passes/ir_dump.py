"""Write the module or data between two phases to a file, for people to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm

from relay_passes.dialect import dialect_of
from tvm_ios.files.atomic import write_atomically

#: The module before it is canonicalised, which importers write.
IMPORTED = "01_imported"
#: The program that is built of what :mod:`relay_passes.pipeline` writes.
PROGRAM = "08_program"


def write_ir(folder: Path | None, name: str, shown: tvm.IRModule | Mapping[str, Any]) -> None:
    """Write a module as its dialect's text, or data as JSON, unless the folder is None."""
    if folder is None:
        return
    if isinstance(shown, tvm.IRModule):
        dialect = dialect_of(shown)
        suffix, text = dialect.text_suffix, dialect.text(shown)
    else:
        suffix, text = ".json", json.dumps(shown, indent=1)
    write_atomically(folder / f"{name}{suffix}", text.encode())
