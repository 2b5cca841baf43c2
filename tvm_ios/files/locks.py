"""Files that one process at a time holds."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, taken: Exception | None = None) -> Generator[int]:
    """Open a file for appending, made if missing, and hold its lock; yield the file descriptor.

    If another process holds the lock, raise ``taken``, or wait if that is None. A holder that is
    killed gives it up.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if taken is None else fcntl.LOCK_NB))
        except BlockingIOError as error:
            if taken is None:
                raise
            raise taken from error
        yield handle
    finally:
        os.close(handle)
