"""Files of lines that only grow: one writer at a time, mended after a kill."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def only_writer(path: Path, taken: Exception) -> Generator[int]:
    """A descriptor that adds to a file, made if there is none, and locks it while it is open.

    Parameters
    ----------
    path
        Where the file is.
    taken
        Raised if another process is its writer.

    Raises
    ------
    OSError
        If it cannot be written.
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
    """Remove an incomplete last line, which a killed writer left; whether there was one."""
    size = os.fstat(handle).st_size
    if not size or os.pread(handle, 1, size - 1) == b"\n":
        return False
    os.ftruncate(handle, os.pread(handle, size, 0).rfind(b"\n") + 1)
    return True
