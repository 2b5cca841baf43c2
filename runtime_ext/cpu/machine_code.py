"""Convert TVM's compiled modules to object code."""

from __future__ import annotations

import os
from typing import Any


def object_code(library: Any) -> bytes:
    """Return the object file, as bytes, of a ``tvm.runtime.Module``."""
    # Write to memory: LLVM ends the whole process if a file cannot be written.
    with open(os.memfd_create("kernel.o"), "rb") as file:
        library.write_to_file(f"/proc/self/fd/{file.fileno()}", "o")
        return file.read()
