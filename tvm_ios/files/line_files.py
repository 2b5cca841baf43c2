"""Append-only text files, repaired after a kill."""

from __future__ import annotations

import os


def cut_unfinished_line(handle: int) -> bool:
    """Remove an incomplete last line, which a killed writer left; return whether there was one."""
    size = os.fstat(handle).st_size
    if not size or os.pread(handle, 1, size - 1) == b"\n":
        return False
    os.ftruncate(handle, os.pread(handle, size, 0).rfind(b"\n") + 1)
    return True
