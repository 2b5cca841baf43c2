"""A file that processes lock, one after another."""

from __future__ import annotations

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock of a file, which is made if need be; a killed holder gives it up."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
