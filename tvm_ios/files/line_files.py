"""Append-only text files with one writer at a time, repaired after a kill."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def only_writer(path: Path, taken: Exception) -> Generator[int]:
    """Open a file for appending, made if missing, and hold an exclusive lock on it.

    Yield the file descriptor; raise ``taken`` if another process holds the lock.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise taken from error
        yield handle
    finally:
        os.close(handle)


def cut_unfinished_line(handle: int) -> bool:
    """Remove an incomplete last line, which a killed writer left; return whether there was one."""
    size = os.fstat(handle).st_size
    if not size or os.pread(handle, 1, size - 1) == b"\n":
        return False
    os.ftruncate(handle, os.pread(handle, size, 0).rfind(b"\n") + 1)
    return True
